
"use strict";
// Chooses and sorts the examples. Without scripts the choices stay hidden and all examples show.
const row = document.getElementById("filter-row");
if (row) {
  const [bias, people, order] = ["filter", "people", "order"].map((name) => document.getElementById(`example-${name}`));
  const shown = document.getElementById("examples-shown");
  const list = document.getElementById("examples-list");
  const items = [...list.querySelectorAll(".example")];
  const fits = (item) => (bias.value === "" || item.dataset.bias === bias.value) &&
    (!people || people.value === "" || item.dataset.people.split(" ").includes(people.value));
  const apply = () => {
    const wanted = items.filter(fits);
    items.forEach((item) => { item.hidden = !wanted.includes(item); });
    shown.textContent = wanted.length ? `${wanted.length} of ${items.length} shown` : `None of ${items.length} fits`;
  };
  const sort = () => {
    const key = order.value;
    // Sorting is stable: what is equal keeps the order of the page as it was written.
    list.append(...[...items].sort((one, other) => Number(other.dataset[key]) - Number(one.dataset[key])));
  };
  const open = (state) => () => items.filter((item) => !item.hidden).forEach((item) => { item.open = state; });
  bias.addEventListener("change", apply);
  people?.addEventListener("change", apply);
  order.addEventListener("change", sort);
  document.getElementById("open-all").addEventListener("click", open(true));
  document.getElementById("close-all").addEventListener("click", open(false));
  row.hidden = false;
  // A browser may bring back earlier choices when it comes back to the page.
  apply();
  sort();
}
// Paper has no folds to open: all are opened for it, and closed again afterwards.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((one) => { one.open = true; });
});
addEventListener("afterprint", () => { opened.forEach((one) => { one.open = false; }); });
