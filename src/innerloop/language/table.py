"""The tasks of texts that have a name on the command line."""

from innerloop.core.task import Task
from innerloop.language.classification import TextClassification
from innerloop.language.translation import Translation

TEXT_TASKS: dict[str, type[Task]] = {
    "translation": Translation,
    "text-classification": TextClassification,
}
"""By name; the class's own name is understood as well."""
