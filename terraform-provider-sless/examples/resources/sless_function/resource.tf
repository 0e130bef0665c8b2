# Code in a folder beside this file.
resource "sless_function" "example" {
  name       = "example"
  runtime    = "python3.11"
  entrypoint = "handler.handle"
  source_dir = "${path.module}/src"
  excludes   = ["tests/", "*.md"]

  memory_mb   = 128
  timeout_sec = 30
  env = {
    GREETING = "hello"
  }
}

# A few lines of code in the configuration itself.
resource "sless_function" "small" {
  name    = "small"
  runtime = "nodejs20"
  inline = {
    "handler.js" = "exports.handle = async (event) => ({ sum: event.a + event.b })"
  }
  replicas = 1

  timeouts {
    create = "15m"
  }
}

# A secret that is neither in the plan nor in the state.
resource "sless_function" "secretive" {
  name    = "secretive"
  runtime = "python3.11"
  inline = {
    "handler.py" = "import os\ndef handle(event): return len(os.environ['API_KEY'])"
  }
  secret_env_wo = {
    API_KEY = var.api_key
  }
  secret_env_wo_version = 1
}

variable "api_key" {
  type      = string
  sensitive = true
  default   = "an example"
}
