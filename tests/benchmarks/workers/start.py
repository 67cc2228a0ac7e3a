"""A new interpreter that imports a client and sends a first message: `python start.py pulsar_actors pulsar://…`.

It prints the seconds of both steps. It imports only what a client imports anyway.
"""

import sys
import time

module, url = sys.argv[1:]
began = time.perf_counter()
pulsar = __import__(module)
imported = time.perf_counter()
client = pulsar.Client(url)
producer = client.create_producer("persistent://public/default/measured-start")
producer.send(b"first")
sent = time.perf_counter()
client.close()
print(imported - began, sent - imported)
