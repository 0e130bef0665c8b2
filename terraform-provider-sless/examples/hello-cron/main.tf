# A function with a URL, which also runs by itself every five minutes.
resource "sless_function" "hello" {
  name       = "hello"
  runtime    = "python3.11"
  source_dir = "${path.module}/src"
}

resource "sless_trigger" "web" {
  name     = "hello-web"
  function = sless_function.hello.name
  type     = "http"
  payload  = "body" # the JSON body is the event, as on the schedule
}

resource "sless_trigger" "clock" {
  name       = "hello-clock"
  function   = sless_function.hello.name
  type       = "cron"
  schedule   = "*/5 * * * *"
  event_json = jsonencode({ name = "clock" })
}

output "url" {
  value = sless_trigger.web.url
}
