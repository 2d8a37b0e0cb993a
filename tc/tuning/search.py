"""Searches: each is asked for candidates, and told how fast they were.

    candidate = search.ask();  search.tell(candidate, seconds)

A search has a seed: asked and told the same, it gives the same. Candidates whose kernel was given
before are not given again.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tc.errors import BackendError, InputError
from tc.tuning.space import Candidate, Point, SearchSpace

_MAX_TRIES = 50
"""The most points that are drawn until one is new."""

FAILED = math.inf
"""The seconds that a failed candidate counts as."""


@dataclass
class Search(ABC):
    """A search of a space. The first candidate is the default one, then come the known ones."""

    space: SearchSpace
    seed: int = 0
    times: dict[str, float] = field(default_factory=dict)
    known: dict[str, Candidate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.seeds = list(self.space.seeds)

    def ask(self) -> Candidate | None:
        """The next candidate, None where nothing new is found."""
        if not self.known:
            return self._new(self.space.default)
        while self.seeds:
            known = self.space.make(self.seeds.pop(0))
            if isinstance(known, Candidate) and known.digest not in self.known:
                return self._new(known)
        for _ in range(_MAX_TRIES):
            found = self.space.make(self.draw())
            if isinstance(found, Candidate) and found.digest not in self.known:
                return self._new(found)
        return None

    def tell(self, candidate: Candidate, seconds: float) -> None:
        """How long a call took, `FAILED` where there was none."""
        self.times[candidate.digest] = seconds

    @property
    def best(self) -> Candidate | None:
        """The fastest that was told of."""
        digest = min(self.times, key=self.times.__getitem__, default=None)
        return None if digest is None or self.times[digest] == FAILED else self.known[digest]

    @abstractmethod
    def draw(self) -> Point:
        """A point to look at."""

    def _new(self, candidate: Candidate) -> Candidate:
        self.known[candidate.digest] = candidate
        return candidate

    # --- what searches have in common ---------------------------------------------------------

    def any_point(self, share: float = 0.3) -> dict[str, str]:
        """Random genes: about the share `share` of them is drawn, the others have their
        defaults."""
        return {
            name: self.random.choice(values)
            for name, values in sorted(self.space.genes.items())
            if self.random.random() < share
        }

    def mutated(self, point: Point, rate: float) -> dict[str, str]:
        """A point with some genes changed, at least one."""
        names = sorted(self.space.genes)
        chosen = [name for name in names if self.random.random() < rate]
        changed = dict(point)
        for name in chosen or self.random.sample(names, min(1, len(names))):
            changed[name] = self.random.choice(self.space.genes[name])
        return changed

    def ranked(self) -> list[Candidate]:
        """The candidates that ran, the fastest first."""
        ran = [(time, digest) for digest, time in self.times.items() if time != FAILED]
        return [self.known[digest] for _, digest in sorted(ran)]


@dataclass
class RandomSearch(Search):
    """Points at random: what other searches have to beat."""

    def draw(self) -> Point:
        return self.any_point(self.random.choice((0.1, 0.3, 0.6)))


@dataclass
class GeneticSearch(Search):
    """The genetic algorithm of Vasilache et al. 2018, section 6: of a population, three parents are
    chosen by fitness (the inverse of their times), each gene comes from one of them, and some
    mutate; the fastest `elites` stay as they are."""

    population: int = 20
    elites: int = 4
    mutation: float = 0.1

    def draw(self) -> Point:
        parents = self.ranked()[: max(self.elites, self.population // 2)]
        if len(self.times) < self.population or len(parents) < 3:
            return self.any_point()
        weights = [1 / self.times[parent.digest] for parent in parents]
        chosen = self.random.choices(parents, weights, k=3)
        genes = sorted({name for parent in chosen for name in parent.point})
        child = {}
        for name in genes:
            value = self.random.choice(chosen).point.get(name)
            if value is not None:
                child[name] = value
        return self.mutated(child, self.mutation)


@dataclass
class GuidedSearch(GeneticSearch):
    """Draws points as the genetic search does, a few for each that it asks for, and asks for the
    one that a model says is fastest, of these and of those that were passed over: a ridge
    regression of the logarithm of times on what kernels do (`features`), made anew after each
    trial. Now and then it asks for one at random. (To lower a candidate takes about as long as to
    compile it, so that each that is drawn has to serve for long.)"""

    drawn: int = 3
    explored: float = 0.2
    passed_over: dict[str, Candidate] = field(default_factory=dict)

    def ask(self) -> Candidate | None:
        if self.seeds or len(self.ranked()) < 4 or self.random.random() < self.explored:
            return super().ask()
        model = fitted({self.known[d].features: t for d, t in self.times.items() if t != FAILED})
        for _ in range(self.drawn):
            made = self.space.make(self.draw())
            if isinstance(made, Candidate):
                self.passed_over.setdefault(made.digest, made)
        for digest in self.known.keys() & self.passed_over.keys():
            del self.passed_over[digest]
        if not self.passed_over:
            return super().ask()
        return self._new(min(self.passed_over.values(), key=lambda made: model(made.features)))

    def draw(self) -> Point:
        best = self.ranked()
        if best and self.random.random() < 0.5:
            return self.mutated(self.random.choice(best[:3]).point, self.mutation)
        return super().draw()


def fitted(
    times: Mapping[tuple[float, ...], float], ridge: float = 1.0
) -> Callable[[tuple[float, ...]], float]:
    """The logarithm of the time as a function of features, linear, by least squares.

    >>> model = fitted({(1.0,): 2.718281828, (2.0,): 7.389056, (3.0,): 20.0855369}, ridge=1e-9)
    >>> round(model((4.0,)), 3)
    4.0
    """
    rows = np.array(list(times), float)
    values = np.log(list(times.values()))
    middle, mean = rows.mean(0), values.mean()
    spread = rows.std(0)
    spread[spread == 0] = 1.0
    scaled = (rows - middle) / spread
    normal = scaled.T @ scaled + ridge * np.eye(rows.shape[1])
    weights = np.linalg.solve(normal, scaled.T @ (values - mean))
    return lambda features: float(mean + ((np.array(features) - middle) / spread) @ weights)


SEARCHES: dict[str, type[Search]] = {
    "genetic": GeneticSearch,
    "guided": GuidedSearch,
    "random": RandomSearch,
}


def search_named(name: object, space: SearchSpace, seed: int) -> Search:
    """The search of a name; BackendError for an unknown name."""
    check_search(name)
    return SEARCHES[str(name)](space, seed)


def check_seed(seed: object) -> None:
    """InputError for what is no seed."""
    if type(seed) is not int or seed < 0:
        raise InputError(f"seed={seed!r}: it is an integer of at least 0", repair="seed=0")


def check_search(name: object) -> None:
    """BackendError for a name that no search has."""
    if not isinstance(name, str) or name not in SEARCHES:
        names = ", ".join(map(repr, SEARCHES))
        raise BackendError(f"no search {name!r}; there are {names}", repair='search="guided"')
