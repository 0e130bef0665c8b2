-- The health of a Function, a Trigger or a FunctionJob, by its condition Ready.
local ready = nil
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if condition.type == "Ready" then
      ready = condition
    end
  end
end
if ready == nil or ready.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "sless has not looked at this spec yet"}
end

local health = "Progressing" -- Unknown: something goes on by itself
if ready.status == "False" then
  health = "Degraded" -- only a change by somebody helps
elseif ready.status == "True" then
  health = "Healthy"
  -- Not so a Function without an enabled Trigger: a sync would never come to the wave that enables one.
  if obj.kind == "Trigger" and ready.reason == "Disabled" then
    health = "Suspended"
  end
end
return {status = health, message = ready.reason .. ": " .. ready.message}
