"""What optimizers pull in when they are first used."""

import subprocess
import sys

_CODE = """
import sys, torch
from rein.optimizers import Adam, RMSprop
for optimizer in (Adam(lr=0.1), RMSprop(lr=0.1)):
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer.add_param_group({"params": [parameter]})
    parameter.square().sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
    assert parameter.max() < 1.0
print("torch._dynamo" in sys.modules)
"""


def test_using_an_optimizer_does_not_import_the_compiler_of_torch() -> None:
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
