def handle(event):
    # Bring the database to the version here.
    return {"schema": str(event["to"])}
