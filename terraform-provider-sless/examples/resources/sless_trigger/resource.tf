# A URL.
resource "sless_trigger" "example" {
  name     = "example"
  function = sless_function.echo.name
  type     = "http"
  methods  = ["GET", "POST"]
}

# Every working day at eight.
resource "sless_trigger" "morning" {
  name       = "morning"
  function   = sless_function.echo.name
  type       = "cron"
  schedule   = "0 8 * * MON-FRI"
  time_zone  = "Europe/Berlin"
  event_json = jsonencode({ task = "report" })
}

resource "sless_function" "echo" {
  name    = "echo"
  runtime = "python3.11"
  inline = {
    "handler.py" = "def handle(event): return event"
  }
}

output "url" {
  value = sless_trigger.example.url
}
