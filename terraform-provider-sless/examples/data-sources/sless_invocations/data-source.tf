# The last runs of a schedule that failed.
data "sless_invocations" "failed" {
  trigger = "example"
  status  = "5xx"
  limit   = 10
}

output "failed_runs" {
  value = [for run in data.sless_invocations.failed.invocations : "${run.started_at} ${run.status} ${run.id}"]
}
