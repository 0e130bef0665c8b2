data "sless_triggers" "all" {}

output "names" {
  value = data.sless_triggers.all.triggers[*].name
}
