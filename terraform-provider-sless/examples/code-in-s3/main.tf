# The code is a zip archive in a bucket of your own, put there by another program such as a pipeline. The Secret has the keys to it:
#
#   kubectl -n NAMESPACE create secret generic code-bucket --from-literal=accessKeyID=… --from-literal=secretAccessKey=…
variable "bucket" {
  type = string
}

variable "key" {
  type    = string
  default = "releases/hello.zip"
}

variable "sha256" {
  description = "SHA-256 of the archive: another one deploys the new bytes under the same key."
  type        = string
}

variable "endpoint" {
  description = "URL of the object store; the platform's when null."
  type        = string
  default     = null
}

resource "sless_function" "from_bucket" {
  name    = "from-bucket"
  runtime = "python3.11"
  s3 = {
    bucket      = var.bucket
    key         = var.key
    sha256      = var.sha256
    endpoint    = var.endpoint
    secret_name = "code-bucket"
  }
}

resource "sless_trigger" "from_bucket" {
  name     = "from-bucket"
  function = sless_function.from_bucket.name
  type     = "http"
}

output "url" {
  value = sless_trigger.from_bucket.url
}
