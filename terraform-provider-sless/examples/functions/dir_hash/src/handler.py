import os


def handle(event):
    return {"greeting": os.environ["GREETING"]}
