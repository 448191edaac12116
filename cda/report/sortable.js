
"use strict";
// Headers that sort their table. Without scripts the rows stay as they were written.
const number = (cell) => {
  const found = cell.textContent.trim().replace("−", "-").match(/^[+-]?\d+(\.\d+)?/);
  return found ? Number(found[0]) : null;
};
const compared = (one, other, sign) => {
  const [a, b] = [number(one), number(other)];
  if (a !== null && b !== null) return sign * (a - b);
  // Words, such as "not measured", come last in both orders; two words go by the alphabet.
  if (a === null && b === null) return sign * one.textContent.localeCompare(other.textContent);
  return a === null ? 1 : -1;
};
for (const table of document.querySelectorAll("table.wide")) {
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  table.classList.add("sortable");
  table.caption.append("; press a column's name to sort by it");
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((each) => { each.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
      body.append(...[...body.rows].sort((one, other) => compared(one.cells[column], other.cells[column], sign)));
    });
  });
}
