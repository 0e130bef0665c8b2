data "sless_functions" "all" {}

output "names" {
  value = data.sless_functions.all.functions[*].name
}
