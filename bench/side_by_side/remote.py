"""A peer in a process of its own: it cannot disturb the others' memory and threads, and may crash."""

import multiprocessing
import os
import traceback
import warnings

from .callers import called_at_once
from .sides import PEERS, check_export

DEADLINE_S = 1200  # a cold torch.compile of a large model takes minutes


def serve(connection, side, export, threads, callers):
    """Sets the side up, then answers each number of seconds with the median latency in ms, until None comes."""
    os.dup2(2, 1)  # libraries print where they like
    warnings.filterwarnings("ignore")
    try:
        peer = PEERS[side](export, threads) if callers == 1 else called_at_once(side, export, threads, callers)
        error = check_export(peer.outputs(), export)
        connection.send(("done", (peer.setup_s, error)))
        while (seconds := connection.recv()) is not None:
            connection.send(("done", peer.median_ms(seconds)))
    except Exception as error:
        traceback.print_exc()
        connection.send(("failed", f"{type(error).__name__}: {error}"))


class Remote:
    def __init__(self, side, export, threads, callers):
        spawn = multiprocessing.get_context("spawn")
        self.connection, theirs = spawn.Pipe()
        self.process = spawn.Process(target=serve, args=(theirs, side, export, threads, callers))
        self.process.start()
        theirs.close()
        try:
            self.setup_s, self.error = self.receive()
        except Exception:
            self.close()
            raise

    def receive(self):
        if not self.connection.poll(DEADLINE_S):
            raise RuntimeError(f"did not answer within {DEADLINE_S} s")
        try:
            status, value = self.connection.recv()
        except EOFError:
            self.process.join()
            raise RuntimeError(f"its process ended with status {self.process.exitcode}") from None
        if status == "failed":
            raise RuntimeError(value)
        return value

    def median_ms(self, seconds):
        self.connection.send(seconds)
        return self.receive()

    def close(self):
        if self.process.is_alive():
            self.process.terminate()
        self.process.join()
