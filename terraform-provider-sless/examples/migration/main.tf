# A migration runs as a job before the new version of the API is deployed. When it fails, the API stays as it is.
variable "schema_version" {
  description = "Count it up to run the migration."
  type        = number
  default     = 1
}

resource "sless_function" "migrate" {
  name       = "migrate"
  runtime    = "python3.11"
  source_dir = "${path.module}/src"
  entrypoint = "migrate.handle"
}

resource "sless_job" "migrate" {
  name       = "migrate"
  function   = sless_function.migrate.name
  run_id     = var.schema_version
  event_json = jsonencode({ to = var.schema_version })
}

resource "sless_function" "api" {
  name       = "api"
  runtime    = "python3.11"
  source_dir = "${path.module}/src"
  entrypoint = "api.handle"
  env = {
    SCHEMA = jsondecode(sless_job.migrate.result).schema
  }
}

resource "sless_trigger" "api" {
  name     = "api"
  function = sless_function.api.name
  type     = "http"
}

output "url" {
  value = sless_trigger.api.url
}
