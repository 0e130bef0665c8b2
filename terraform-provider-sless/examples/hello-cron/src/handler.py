def handle(event):
    name = (event or {}).get("name", "world")
    print(f"greeting {name}")
    return {"greeting": f"hello, {name}"}
