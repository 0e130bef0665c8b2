# terraform apply -invoke=action.sless_run_job.clean
action "sless_run_job" "clean" {
  config {
    function         = "example"
    event_json       = jsonencode({ older_than_days = 30 })
    wait_timeout_sec = 600
  }
}
