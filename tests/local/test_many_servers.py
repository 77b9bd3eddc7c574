"""Regions whose Redis is several servers: started, broken, and started again elsewhere."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness.patience import PATIENCE_S, until
from tradewind import Client, regions
from tradewind.cli.up import ECHO_APP, STARTER
from tradewind.local.embedded import EmbeddedFleet
from tradewind.local.freeports import free_ports
from tradewind.local.plan import EmbeddedOptions
from tradewind.local.redis_server import ask, find_server
from tradewind.local.store_files import lay_out
from tradewind.local.store_specs import store_specs
from tradewind.local.stores import Form, Store, form_of, store_of
from tradewind.local.supervisor import Supervisor
from tradewind.store.shards import SLOTS_HELD

EU = "eu-west"
