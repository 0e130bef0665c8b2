import os


def handle(event):
    return {"statusCode": 200, "body": "schema " + os.environ["SCHEMA"]}
