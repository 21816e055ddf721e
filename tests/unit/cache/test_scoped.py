"""Four scopes: a value is seen by those it is for, the nearest one wins, and hosts keep theirs apart."""

from __future__ import annotations

import pytest

from kubexm.cache import Caches, Key, ModuleCache, PipelineCache, Scope, StepCache, TaskCache

TOKEN: Key[str] = Key("token")
MEMBER: Key[int] = Key("member", per_host=True)


def test_a_look_up_falls_back_to_the_scope_around() -> None:
    pipeline = PipelineCache()
    module = ModuleCache(pipeline)
    task = TaskCache(module)
    step = StepCache(task)
    pipeline.set(TOKEN, "from the pipeline")
    assert step.get(TOKEN) == "from the pipeline"
    module.set(TOKEN, "from the module")
    assert step.get(TOKEN) == task.get(TOKEN) == "from the module"
    assert pipeline.get(TOKEN) == "from the pipeline"
    step.set(TOKEN, "own")
    assert (step.get(TOKEN), task.get(TOKEN)) == ("own", "from the module")


def test_what_nobody_put_there_is_not_there() -> None:
    step = Caches().step("m.t.n")
    assert (TOKEN, "a") not in step
    with pytest.raises(KeyError, match="token"):
        step.get(TOKEN)


def test_a_value_may_be_nothing_and_still_be_there() -> None:
    cache = PipelineCache()
    cache.set(Key[None]("empty"), None)
    assert (Key[None]("empty"), "") in cache


def test_a_per_host_key_has_one_value_for_each_host_and_others_one_for_all() -> None:
    cache = PipelineCache()
    cache.set(MEMBER, 1, "a")
    cache.set(MEMBER, 2, "b")
    cache.set(TOKEN, "t", "a")
    assert (cache.get(MEMBER, "a"), cache.get(MEMBER, "b")) == (1, 2)
    assert (MEMBER, "c") not in cache
    assert cache.get(TOKEN, "b") == "t"
    assert cache.by_host(MEMBER) == {"a": 1, "b": 2}


def test_all_hosts_together_inner_over_outer() -> None:
    caches = Caches()
    caches.pipeline.set(MEMBER, 1, "a")
    caches.pipeline.set(MEMBER, 2, "b")
    caches.step("m.t.n").set(MEMBER, 9, "b")
    assert caches.step("m.t.n").by_host(MEMBER) == {"a": 1, "b": 9}
    assert caches.step("m.t.other").by_host(MEMBER) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("scope", "seen"),
    [
        (Scope.PIPELINE, {"m.t.n", "m.t.sibling", "m.other.n", "x.t.n"}),
        (Scope.MODULE, {"m.t.n", "m.t.sibling", "m.other.n"}),
        (Scope.TASK, {"m.t.n", "m.t.sibling"}),
        (Scope.STEP, {"m.t.n"}),
    ],
)
def test_a_value_is_seen_within_the_scope_of_its_key(scope: Scope, seen: set[str]) -> None:
    caches = Caches()
    key: Key[str] = Key("k", scope=scope)
    caches.publish("m.t.n", key, "v", "a")
    everyone = ("m.t.n", "m.t.sibling", "m.other.n", "x.t.n")
    assert {node for node in everyone if (key, "a") in caches.step(node)} == seen


def test_the_batches_of_a_rolling_task_share_its_scope() -> None:
    caches = Caches()
    key: Key[str] = Key("k", scope=Scope.TASK)
    caches.publish("m.t.n.n1.example.com", key, "v", "n1.example.com")
    assert caches.step("m.t.other.n2.example.com").get(key) == "v"


def test_a_cache_tells_what_it_holds() -> None:
    cache = PipelineCache()
    cache.set(MEMBER, 1, "a")
    cache.set(TOKEN, "t", "a")
    assert sorted(cache) == [("member", "a"), ("token", "")]
    assert str(TOKEN) == "token"
