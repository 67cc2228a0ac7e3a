"""A FastAPI service that takes orders over HTTP, and prices them in the background. It needs `fastapi` and `uvicorn`.

Run it in this folder, with a broker at `PULSAR_URL` or at Pulsar's usual address:

    uvicorn fastapi_service:app

One client serves the whole process. It is made when the service starts, in the lifespan, and closed when it stops, so
nothing is lost: an order that was accepted is stored by the broker, and one that is being priced is finished or comes
again. With several workers (`uvicorn --workers 4`) each has its own client, and they share the orders.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

import pulsar_actors as pulsar
from pulsar_actors import asyncio as pulsar_asyncio

CENTS = {"apples": 15, "pears": 20}


class Order(BaseModel):
    """What a customer wants."""

    customer: str
    fruit: str
    count: int


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Connect when the service starts, and close when it stops."""
    url = os.environ.get("PULSAR_URL", "pulsar://localhost:6650")
    async with pulsar_asyncio.Client(url, operation_timeout_seconds=5) as client:
        app.state.orders = await client.create_producer("orders", send_timeout_millis=5000)
        app.state.bills = {}
        consumer = await client.subscribe("orders", "till", pulsar.ConsumerType.KeyShared)
        till = asyncio.create_task(price_orders(consumer, app.state.bills))
        yield
        till.cancel()
        with suppress(asyncio.CancelledError):
            await till


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def take_order(order: Order, request: Request) -> dict[str, str]:
    """Accept an order. It is safe when this answers: the broker has stored it."""
    content = order.model_dump_json().encode()
    try:
        message_id = await request.app.state.orders.send(content, partition_key=order.customer)
    except pulsar.PulsarException as error:
        raise HTTPException(503, f"try again later: {type(error).__name__}") from error
    return {"id": str(message_id)}


@app.get("/bills/{customer}")
async def bill(customer: str, request: Request) -> dict[str, int]:
    """Return what a customer has to pay."""
    bills: dict[str, int] = request.app.state.bills
    if customer not in bills:
        raise HTTPException(404, f"no order of {customer} has been priced")
    return {"cents": bills[customer]}


async def price_orders(consumer: pulsar_asyncio.Consumer, bills: dict[str, int]) -> None:
    """Price one order after the other, until the service stops."""
    async for message in consumer:
        order = json.loads(message.data())
        bills[order["customer"]] = bills.get(order["customer"], 0) + CENTS.get(order["fruit"], 0) * order["count"]
        await consumer.acknowledge(message)
