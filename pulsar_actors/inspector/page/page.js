// The page: it asks for a snapshot twice a second, and shows it. All texts are set as texts, never as HTML.

const PERIOD_MS = 500;
const SAMPLES = 120;
const CHANGED_SECONDS = 2;

const found = (id) => document.getElementById(id);
const actors = new Map(); // by name: what is shown of an actor, and its last samples
const charts = new Map(); // by name: the promise of a chart's picture
let chosen = null;
let chosenStates = new Map(); // by chart: the state before, and the present one

function made(tag, className = "", text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

function drawn(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

const number = (value) => Math.round(value).toLocaleString("en");

async function refresh() {
  try {
    const answer = await fetch("snapshot");
    const snapshot = await answer.json();
    if (!answer.ok) throw new Error(snapshot.reason);
    show(snapshot);
    reach("");
  } catch (error) {
    reach(error instanceof TypeError ? "not reachable: has the program ended?" : error.message);
  }
  setTimeout(refresh, PERIOD_MS);
}

function reach(text) {
  found("reach").textContent = text;
  found("reach").classList.toggle("lost", text !== "");
}

function show(snapshot) {
  found("title").textContent = document.title = snapshot.title;
  showFacts(snapshot);
  showFaults(snapshot.faults);
  const now = performance.now() / 1000;
  const names = new Set(snapshot.shown.map((one) => one.name));
  for (const [name, actor] of actors) {
    if (!names.has(name)) {
      actor.card.remove();
      actors.delete(name);
    }
  }
  for (const one of snapshot.shown) {
    const own = snapshot.changes.filter((change) => change.actor === one.name);
    showActor(one, own, now);
  }
  if (!actors.has(chosen)) choose(firstChoice(snapshot.shown));
  showCharts(snapshot.shown.find((one) => one.name === chosen));
  showChanges(snapshot.changes);
}

function firstChoice(shown) {
  const best = shown.find((one) => one.kind === "producer") ?? shown.find((one) => one.machines.length) ?? shown[0];
  return best ? best.name : null;
}

function showFacts(snapshot) {
  const facts = { ...snapshot.facts };
  if (snapshot.left_out) facts["not shown"] = `${number(snapshot.left_out)} more`;
  found("facts").replaceChildren(
    ...Object.entries(facts).map(([name, value]) => {
      const fact = made("div");
      fact.append(made("dt", "", name), made("dd", "", value));
      return fact;
    }),
  );
}

function showFaults(faults) {
  found("faults").hidden = faults.length === 0;
  const buttons = found("fault-buttons");
  if (buttons.childElementCount === faults.length) return;
  buttons.replaceChildren(
    ...faults.map((label, at) => {
      const button = made("button", "", label);
      button.addEventListener("click", async () => {
        button.classList.add("set");
        await fetch(`faults/${at}`, { method: "POST" });
        setTimeout(() => button.classList.remove("set"), 1000);
      });
      return button;
    }),
  );
}

function showActor(one, changes, now) {
  let actor = actors.get(one.name);
  if (!actor) {
    actor = newActor(one.name);
    actors.set(one.name, actor);
    found("actors").append(actor.card);
  }
  actor.badges.replaceChildren(
    ...one.machines.map(({ chart, state }) => {
      const isNew = hasChanged(actor, changes.findLast((change) => change.chart === chart), now);
      return made("span", isNew ? "badge changed" : "badge", chart === one.kind ? state : `${chart} ${state}`);
    }),
  );
  actor.isNew = false;
  sample(actor, one, now);
}

// Return whether a machine has changed in the last seconds. It may be in the same state as before.
function hasChanged(actor, last, now) {
  if (!last) return false;
  const known = actor.lastChanges.get(last.chart);
  const seen = actor.isNew ? -Infinity : now;
  if (known?.time !== last.time) actor.lastChanges.set(last.chart, { time: last.time, seen });
  return now - actor.lastChanges.get(last.chart).seen < CHANGED_SECONDS;
}

function newActor(name) {
  const card = made("button");
  card.type = "button";
  const badges = made("div");
  const numbers = made("div", "numbers");
  const plot = drawn("svg", { class: "plot", viewBox: `0 0 ${SAMPLES - 1} 28`, preserveAspectRatio: "none" });
  plot.setAttribute("aria-hidden", "true");
  const lines = { gauge: drawn("polyline", { class: "gauge" }), rate: drawn("polyline", { class: "rate" }) };
  plot.append(lines.gauge, lines.rate);
  card.append(made("div", "actor-name", name), badges, numbers, plot);
  card.setAttribute("aria-pressed", "false");
  card.addEventListener("click", () => choose(name));
  const samples = { last: null, rates: [], gauges: [] };
  return { card, badges, numbers, plot, lines, lastChanges: new Map(), isNew: true, ...samples };
}

function sample(actor, one, now) {
  const [counter] = Object.entries(one.counters);
  const [gauge] = Object.entries(one.gauges);
  actor.plot.style.display = counter || gauge ? "" : "none";
  const words = [];
  if (counter) {
    const [name, total] = counter;
    const last = actor.last;
    const rate = last && total >= last.total ? (total - last.total) / (now - last.now) : 0;
    actor.last = { total, now };
    keep(actor.rates, rate);
    words.push(made("span", "rate-text", `${number(total)} ${name} (${number(rate)}/s)`));
  }
  if (gauge) {
    keep(actor.gauges, gauge[1]);
    words.push(made("span", "gauge-text", `${number(gauge[1])} ${gauge[0]}`));
  }
  const others = [...Object.entries(one.counters).slice(1), ...Object.entries(one.gauges).slice(1)];
  for (const [name, value] of others) if (value) words.push(made("span", "", `${number(value)} ${name}`));
  actor.numbers.replaceChildren(...words.flatMap((word, at) => (at ? [", ", word] : [word])));
  actor.lines.rate.setAttribute("points", points(actor.rates));
  actor.lines.gauge.setAttribute("points", points(actor.gauges));
}

function keep(values, value) {
  values.push(value);
  if (values.length > SAMPLES) values.shift();
}

function points(values) {
  const most = Math.max(1, ...values);
  const left = SAMPLES - values.length;
  return values.map((value, at) => `${left + at},${(27 - (25 * value) / most).toFixed(1)}`).join(" ");
}

function choose(name) {
  chosen = name;
  chosenStates = new Map();
  found("chosen").textContent = name ?? "";
  found("charts").replaceChildren();
  for (const [other, actor] of actors) actor.card.setAttribute("aria-pressed", String(other === name));
}

function showCharts(one) {
  if (!one) return;
  const pictures = one.machines.flatMap((machine) => Object.entries(machine.pictures));
  for (const [chart, state] of pictures) {
    let section = found(`chart-${chart}`);
    if (!section) {
      section = made("section");
      section.id = `chart-${chart}`;
      section.append(made("h3"));
      found("charts").append(section);
      picture(chart).then((svg) => {
        if (svg) section.append(svg.cloneNode(true));
        light(section, chart);
      });
    }
    const known = chosenStates.get(chart);
    if (known?.state !== state) chosenStates.set(chart, { before: known?.state, state });
    section.firstElementChild.textContent = `${chart}: ${state}`;
    light(section, chart);
  }
}

function light(section, chart) {
  const { before, state } = chosenStates.get(chart) ?? {};
  for (const group of section.querySelectorAll("[data-state]")) {
    group.classList.toggle("lit", group.dataset.state === state);
    group.classList.toggle("was", group.dataset.state === before);
  }
}

function picture(chart) {
  if (!charts.has(chart)) charts.set(chart, load(chart));
  return charts.get(chart);
}

async function load(chart) {
  const answer = await fetch(`charts/${chart}.svg`);
  if (!answer.ok) return null;
  const svg = new DOMParser().parseFromString(await answer.text(), "image/svg+xml").documentElement;
  return document.adoptNode(svg);
}

function showChanges(changes) {
  const own = changes.filter((change) => change.actor === chosen);
  const listed = (own.length ? own : changes).slice(-60).reverse();
  const last = listed[0];
  const mark = last ? `${chosen} ${last.time} ${last.text} ${listed.length}` : "";
  const list = found("changes");
  if (list.dataset.mark === mark) return;
  list.dataset.mark = mark;
  list.replaceChildren(
    ...listed.map((change) => {
      const line = made("li");
      const when = made("time", "", new Date(change.time * 1000).toISOString().slice(11, 23));
      line.append(when, " ", made("span", change.failed ? "failed" : "", change.text));
      if (change.actor !== chosen) line.append(made("div", "of", change.actor));
      return line;
    }),
  );
}

refresh();
