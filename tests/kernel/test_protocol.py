"""The message protocol, by the suite that Jupyter publishes for kernels, and kernel_info."""

from __future__ import annotations

from importlib import metadata

import jupyter_kernel_test

from pullback.ipython import kernelspec


class TestProtocol(jupyter_kernel_test.KernelTests):
    kernel_name = "pullback"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    code_page_something = "zip?"
    code_generate_error = "1/0"
    code_clear_output = "from IPython.display import clear_output; clear_output()"
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "search")
    code_inspect_sample = "zip"
    completion_samples = [{"text": "zi", "matches": {"zip"}}]
    complete_code_samples = ["1", "print('hello')", "def f(x):\n  return x*2\n\n\n"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples = ["import = 7q"]
    code_execute_result = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"},
    ]
    code_display_data = [
        {
            "code": "from IPython.display import HTML, display; display(HTML('<b>x</b>'))",
            "mime": "text/html",
        },
    ]


def test_kernel_info_names_this_kernel_and_keeps_python_as_the_language(kernel):
    info = kernel.ask("kernel_info")
    assert info["implementation"] == "pullback"
    assert info["implementation_version"] == metadata.version("pullback")
    assert "Pullback" in info["banner"]
    assert info["language_info"]["name"] == "python"
    assert info["language_info"]["pygments_lexer"] == "ipython3"
    assert info["language_info"]["nbconvert_exporter"] == "python"
    assert {"debugger", "kernel subshells"} <= set(info["supported_features"])
    assert all(set(link) == {"text", "url"} for link in info["help_links"])


def test_top_level_await(kernel):
    result = kernel.run("import asyncio\nawait asyncio.sleep(0.01)\nprint('awaited')")
    assert result.stdout == "awaited\n"


def test_a_shell_command_prints_no_warning(kernel):
    kernel.run("import jax.numpy as jnp\nx = jnp.ones(3) + 1")
    result = kernel.run("!echo from the shell")
    assert "from the shell" in result.stdout
    assert result.stderr == ""


def test_starting_and_computing_print_nothing(kernel):
    result = kernel.run("import jax.numpy as jnp\ny = (jnp.ones((4, 4)) @ jnp.ones((4, 4))).sum()")
    assert (result.stdout, result.stderr) == ("", "")


def test_a_subshell_answers_while_the_main_shell_is_busy(start_kernel):
    kernel = start_kernel()
    client = kernel.client
    created = client.session.msg("create_subshell_request", {})
    client.control_channel.send(created)
    reply = client.get_control_msg(timeout=30)
    assert reply["content"]["status"] == "ok"
    subshell = reply["content"]["subshell_id"]

    busy = client.execute("import time; time.sleep(3)")
    quick = client.session.msg("execute_request", {"code": "2+2", "silent": False})
    quick["header"]["subshell_id"] = subshell
    client.shell_channel.send(quick)
    wanted = (busy, quick["header"]["msg_id"])
    answered = []
    while len(answered) < 2:
        parent = client.get_shell_msg(timeout=30)["parent_header"]["msg_id"]
        answered += [parent] * (parent in wanted)
    assert answered == [quick["header"]["msg_id"], busy]
    kernel.close()


def test_the_debugger_stops_at_a_breakpoint(start_kernel):
    kernel = start_kernel()
    client = kernel.client

    def request(command, arguments=None):
        request.seq += 1
        content = {
            "type": "request",
            "seq": request.seq,
            "command": command,
            "arguments": arguments or {},
        }
        client.control_channel.send(client.session.msg("debug_request", content))
        return client.get_control_msg(timeout=60)["content"]

    request.seq = 0
    assert request("initialize", {"clientID": "test", "adapterID": ""})["success"]
    assert request("attach")["success"]
    code = "def f(x):\n    y = x + 1\n    return y\n\nf(1)"
    path = request("dumpCell", {"code": code})["body"]["sourcePath"]
    points = request(
        "setBreakpoints",
        {"breakpoints": [{"line": 2}], "source": {"path": path}, "sourceModified": False},
    )
    assert points["body"]["breakpoints"][0]["verified"]
    request("configurationDone")
    client.execute(code)
    stopped = None
    while stopped is None:
        message = client.get_iopub_msg(timeout=60)
        if message["msg_type"] == "debug_event" and message["content"]["event"] == "stopped":
            stopped = message["content"]
    thread = stopped["body"]["threadId"]
    frames = request("stackTrace", {"threadId": thread})["body"]["stackFrames"]
    assert (frames[0]["name"], frames[0]["line"]) == ("f", 2)
    request("continue", {"threadId": thread})
    assert client.get_shell_msg(timeout=60)["content"]["status"] == "ok"
    kernel.close()


def test_files_of_the_user_s_folder_do_not_break_the_kernel_and_can_be_imported(
    start_kernel, tmp_path, monkeypatch
):
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "prefix" / "share" / "jupyter"))
    kernelspec.install(prefix=str(tmp_path / "prefix"), name="pullback-as-in-the-tree")
    for name in ("random", "queue", "calendar", "code", "types", "pullback"):
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('{name}')")
    (tmp_path / "lesson.py").write_text("import jax.numpy as jnp\nx = jnp.arange(3)")
    kernel = start_kernel("pullback-as-in-the-tree", cwd=str(tmp_path))
    code = "import random, lesson\nprint(lesson.x.sum(), random.__file__.endswith('random.py'))"
    assert kernel.run(code).stdout == "3 True\n"
    kernel.close()
