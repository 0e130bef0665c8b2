data "sless_jobs" "all" {}

output "names" {
  value = data.sless_jobs.all.jobs[*].name
}
