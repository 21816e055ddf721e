"""What all schemas share: texts that can be kept, requests that know their fields, pages of lists."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kubexm.store.texts import clean

__all__ = ["FileName", "GrantName", "In", "Page", "RoleName", "Selector", "Words", "storable"]

T = TypeVar("T")


def storable(text: str) -> str:
    if clean(text) != text:
        raise ValueError("text with a NUL or half a character cannot be kept")
    return text


Words = Annotated[str, AfterValidator(storable), Field(max_length=2000)]
Selector = Annotated[str, AfterValidator(storable), Field(min_length=1, max_length=300, examples=["etcd"])]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", examples=["id_ed25519"])]
RoleName = Literal["viewer", "operator", "admin"]
GrantName = Annotated[str, Field(pattern=r"^(\*|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)$", examples=["demo"])]


class In(BaseModel):
    """A request: nothing in it that is not known."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class Page(BaseModel, Generic[T]):
    """Some of a list; `next` is the cursor of the rest."""

    items: list[T]
    next: str | None = Field(default=None, description="Cursor for the next page; null on the last one.")
