# Another run_id runs it again.
resource "sless_job" "example" {
  name       = "example"
  function   = sless_function.sum.name
  event_json = jsonencode({ numbers = [1, 2, 3] })
  run_id     = 1
}

resource "sless_function" "sum" {
  name    = "sum"
  runtime = "python3.11"
  inline = {
    "handler.py" = "def handle(event): return sum(event['numbers'])"
  }
}

output "result" {
  value = jsondecode(sless_job.example.result)
}
