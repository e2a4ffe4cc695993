"""An agent as FastAPI users write one: sse-starlette under uvicorn, CRLF frames, a ping comment every second of silence."""

import asyncio
import time

from fastapi import FastAPI, Request
from sse_starlette import EventSourceResponse, ServerSentEvent

app = FastAPI()
jobs: dict[str, "Job"] = {}


def now_ms() -> float:
    return time.time() * 1000


class Job:
    """Emits by the clock from when it is first asked for; who starts over each time has the clock start over, too."""

    def __init__(self, count: int, every_ms: float, pause_after: int, pause_ms: float):
        self.count = count
        self.every_ms = every_ms
        self.pause_after = pause_after
        self.pause_ms = pause_ms
        self.began_at_ms = now_ms()
        self.connections: list[dict] = []

    def event(self, number: int) -> dict:
        if number == self.count + 1:
            return {"id": str(number), "name": "done", "data": "{}"}
        texts = [f'{{"n": {number}}}', f"line {number}\nand another", f" {number}: 北😀 €\u2028 ", f"{number}\n"]
        return {"id": str(number), "name": None if number % 3 == 0 else "output", "data": texts[number % 4]}

    def due_ms(self, number: int) -> float:
        return (number - 1) * self.every_ms + (self.pause_ms if number > self.pause_after else 0)

    async def stream(self, first: int, began_at_ms: float):
        connection = {"openedAtMs": now_ms(), "closedAtMs": None, "firstEvent": first - 1}
        self.connections.append(connection)
        try:
            for number in range(first, self.count + 2):
                await asyncio.sleep(max(0, began_at_ms + self.due_ms(number) - now_ms()) / 1000)
                event = self.event(number)
                yield ServerSentEvent(event["data"], event=event["name"], id=event["id"], retry=300)
        finally:
            connection["closedAtMs"] = now_ms()


@app.get("/{name}/stream")
async def stream(
    request: Request, name: str, resumes: bool, count: int, everyMs: float, pauseAfter: int, pauseMs: float
):
    job = jobs.setdefault(name, Job(count, everyMs, pauseAfter, pauseMs))
    last_event_id = request.headers.get("last-event-id")
    first = int(last_event_id) + 1 if resumes and last_event_id else 1
    return EventSourceResponse(job.stream(first, job.began_at_ms if resumes else now_ms()), ping=1)


@app.get("/{name}/emission")
async def emission(name: str):
    job = jobs[name]
    return {"events": [job.event(number) for number in range(1, job.count + 2)], "connections": job.connections}
