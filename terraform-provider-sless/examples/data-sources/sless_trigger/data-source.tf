data "sless_trigger" "example" {
  name = "example"
}

output "url" {
  value = data.sless_trigger.example.url
}
