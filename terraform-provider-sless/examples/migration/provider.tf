terraform {
  required_providers {
    sless = {
      source = "terra.k8c.ru/naeel/sless"
    }
  }
}

# Address, token and namespace come from SLESS_ENDPOINT, SLESS_TOKEN and SLESS_NAMESPACE.
provider "sless" {}
