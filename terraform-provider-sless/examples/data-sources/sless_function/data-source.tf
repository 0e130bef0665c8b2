data "sless_function" "example" {
  name = "example"
}

output "image" {
  value = data.sless_function.example.image
}
