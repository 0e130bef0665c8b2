# terraform apply -invoke=action.sless_invoke.warm_up
action "sless_invoke" "warm_up" {
  config {
    function   = "example"
    event_json = jsonencode({ warm = true })
  }
}
