from tradewind.client import Cancellation as Cancellation
from tradewind.client import Client as Client
from tradewind.client import Receipt as Receipt
from tradewind.client import Route as Route
from tradewind.client import Stay as Stay
from tradewind.client import SyncClient as SyncClient
from tradewind.client import TaskFailure as TaskFailure
from tradewind.client import TaskOptions as TaskOptions
from tradewind.client import TaskRequest as TaskRequest
from tradewind.client import TaskView as TaskView
from tradewind.errors import TaskCancelled as TaskCancelled
from tradewind.errors import TaskDead as TaskDead
from tradewind.errors import TaskExpired as TaskExpired
from tradewind.errors import TradewindError as TradewindError
from tradewind.errors import WaitOver as WaitOver
from tradewind.handlers import App as App
from tradewind.handlers import Context as Context
from tradewind.handlers import Reject as Reject
from tradewind.handlers import Retry as Retry
from tradewind.state import State as State
from tradewind.task import Priority as Priority

__version__: str
