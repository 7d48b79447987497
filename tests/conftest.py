"""One CPU thread a worker: the nets are tiny, and workers fill the cores. Ctrl-C is heard, however pytest was started."""

import signal

import torch

torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so a shell starts what runs behind it, and children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
