data "sless_job" "example" {
  name = "example"
}

output "result" {
  value = data.sless_job.example.result
}
