terraform {
  required_providers {
    sless = {
      source = "terra.k8c.ru/naeel/sless"
    }
  }
}

# The address and the token may also come from SLESS_ENDPOINT and SLESS_TOKEN, or SLESS_TOKEN_FILE.
provider "sless" {
  endpoint  = var.endpoint
  token     = var.token
  namespace = var.namespace
}

variable "endpoint" {
  description = "URL of the platform's API."
  type        = string
}

variable "token" {
  description = "Bearer token."
  type        = string
  sensitive   = true
}

variable "namespace" {
  description = "Where your functions live."
  type        = string
}

# What is there already.
data "sless_functions" "all" {}

output "functions" {
  value = [for function in data.sless_functions.all.functions : "${function.name} is ${function.phase}"]
}
