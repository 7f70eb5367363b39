// A click on a column's title sorts the table's rows by it; another click turns the order round.
const words = new Intl.Collator(undefined, { numeric: true });

function key(row, column) {
  const cell = row.cells[column];
  return cell.dataset.sort === undefined ? cell.innerText : Number(cell.dataset.sort);
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return typeof a === typeof b ? words.compare(a, b) : typeof a === "number" ? -1 : 1;
}

function sort(table, column) {
  const title = table.tHead.rows[0].cells[column];
  const turned = title.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  title.setAttribute("aria-sort", turned === 1 ? "ascending" : "descending");
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => turned * compare(key(a, column), key(b, column)));
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("table.cards")) {
  if (table.tBodies[0].rows.length < 2) continue;
  [...table.tHead.rows[0].cells].forEach((title, column) => {
    const button = document.createElement("button");
    button.className = "sort";
    button.type = "button";
    button.append(...title.childNodes);
    button.addEventListener("click", () => sort(table, column));
    title.append(button);
  });
}

// A page that shows work in progress is loaded again until the work is done, or the reader leaves.
if (document.querySelector("[data-again]")) {
  const again = setTimeout(() => location.reload(), 2000);
  addEventListener("beforeunload", () => clearTimeout(again));
}
