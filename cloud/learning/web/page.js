"use strict";

const $ = (id) => document.getElementById(id);
const ARROWS = ["data_set", "train", "evaluate", "approve", "release", "rollout", "watch"];
const AT = {
  collecting: "data_set", data_set: "data_set", training: "train", evaluating: "evaluate",
  approving: "approve", releasing: "release", rolling_out: "rollout", watching: "watch",
};
const OVER = ["done", "refused", "failed", "stopped"];
const EVERY_MS = 5000;
const HOLDOUT = 0.1; // of a loop whose `data` says nothing
let next = null;

function say(words, bad = false) {
  $("said").textContent = words;
  $("said").className = bad ? "bad" : "";
}

async function ask(method, path, body, revision) {
  const headers = {};
  if ($("key").value) headers["X-API-Key"] = $("key").value;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (revision !== undefined) headers["If-Match"] = `"${revision}"`;
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw new Error(problem.detail || `${path}: HTTP status ${answer.status}`);
  }
  return answer;
}

const get = async (path) => (await ask("GET", path)).json();
const part = encodeURIComponent;

async function trying(work) {
  try {
    await work();
  } catch (error) {
    say(error.message, true);
  }
}

function made(tag, text, properties = {}) {
  const element = document.createElement(tag);
  element.textContent = text ?? "";
  return Object.assign(element, properties);
}

function button(text, work) {
  return made("button", text, { type: "button", onclick: () => trying(work) });
}

const when = (at) => (at === null ? "" : new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ") + "Z");
const percent = (share) => `${(100 * share).toFixed(1)}%`;

// feedback

const names = () => $("filters").elements.names.value.split(",").map((one) => one.trim()).filter(Boolean);
const named = (label) => names()[label] ?? String(label);

async function showFeedback() {
  const { loops } = await get("/v1/loops");
  const { holdout } = $("filters").elements;
  const chosen = holdout.value;
  holdout.replaceChildren(holdout.options[0], ...loops.map(({ settings }) => made("option", settings.model, { value: heldOut(settings) })));
  holdout.value = [...holdout.options].some((one) => one.value === chosen) ? chosen : "";
  await showSamples(null);
}

const heldOut = ({ model, teacher, data }) =>
  String(new URLSearchParams({ model, cloud_model: teacher, holdout: data?.holdout_share ?? HOLDOUT }));

async function showSamples(from) {
  const fields = $("filters").elements;
  const query = new URLSearchParams({ limit: "24" });
  for (const name of ["unlabelled", "disputed", "contradicted"]) if (fields[name].checked) query.set(name, "true");
  for (const [name, value] of new URLSearchParams(fields.holdout.value)) query.set(name, value);
  for (const name of ["unsure", "device", "site"]) if (fields[name].value) query.set(name, fields[name].value);
  if (from) query.set("after", from);
  const page = await get(`/v1/feedback/samples?${query}`);
  if (!from) clearSamples();
  for (const sample of page.samples) $("samples").append(card(sample));
  next = page.next;
  $("more").hidden = next === null;
  say($("samples").childElementCount ? "" : "No samples: none came, or people have labelled all of them.");
}

function clearSamples() {
  for (const image of $("samples").querySelectorAll("img")) URL.revokeObjectURL(image.src);
  $("samples").replaceChildren();
}

function card(sample) {
  const at = `/v1/feedback/samples/${part(sample.device)}/${part(sample.id)}`;
  const element = made("article", "", { className: "card" });
  const image = made("img", "", { alt: `a sample of ${sample.device}` });
  const labels = made("div", "", { className: "labels" });
  element.append(
    image,
    made("strong", sample.device + (sample.site ? ` at ${sample.site}` : "")),
    made("small", `${when(sample.received_at)}, ${sample.reason}, ${sample.edge_model} ${sample.edge_version}`),
    made("small", `edge: ${named(sample.edge_label)} ${percent(sample.edge_confidence)}`),
    made("small", `cloud: ${named(sample.cloud_label)} ${percent(sample.cloud_confidence)}`),
    labels,
  );
  picture(at, image);
  buttons(at, sample, element, labels);
  return element;
}

async function picture(at, image) {
  try {
    image.src = URL.createObjectURL(await (await ask("GET", `${at}/image`)).blob());
  } catch (error) {
    image.alt = error.message;
  }
}

function buttons(at, sample, element, labels) {
  const counts = sample.label_source === "person" && !sample.contradicted;
  element.classList.toggle("done", counts);
  const known = names();
  const shown = known.length ? known.map((_, label) => label) : [...new Set([sample.edge_label, sample.cloud_label])];
  const said = (label) => async () => {
    const found = await (await ask("PUT", `${at}/label`, { label, comment: "" })).json();
    say(found.contradicted ? "People differ on it: it is in no data set until they agree." : "");
    buttons(at, found, element, labels);
  };
  labels.replaceChildren(
    ...shown.map((label) => {
      const one = button(named(label), said(label));
      one.ariaPressed = String(counts && sample.label === label);
      return one;
    }),
  );
  if (!known.length) {
    const other = made("input", "", { size: 4, placeholder: "other" });
    other.onchange = () => trying(said(Number.parseInt(other.value, 10)));
    labels.append(other);
  }
  if (sample.labels.length) {
    labels.append(button("take my word back", async () => {
      await ask("DELETE", `${at}/label`);
      buttons(at, await get(at), element, labels);
    }));
  }
}

// jobs

async function showJobs() {
  const { jobs } = await get("/v1/jobs?limit=50");
  $("job-rows").replaceChildren(...jobs.map((job) => {
    const { recipe, team } = job.spec;
    const what = `${recipe.kind} ${recipe.student ?? recipe.source ?? recipe.name} -> ${recipe.version}`;
    const state = job.state === "running" ? `running, ${percent(job.progress)}` : job.state;
    const row = made("tr", "", { onclick: () => trying(() => showJob(job.id)) });
    row.append(...[job.id, what, state, team, job.worker, job.why].map((text) => made("td", text)));
    return row;
  }));
}

async function showJob(id) {
  const at = `/v1/jobs/${part(id)}`;
  const [job, { lines }] = [await get(at), await get(`${at}/logs?limit=1000`)];
  const parts = [made("h2", `${job.id}: ${job.state}`), made("p", job.why)];
  const metrics = job.run === null ? [] : Object.keys((await get(`${at}/run`)).figures).slice(0, 12);
  for (const metric of metrics) {
    const { points } = await get(`${at}/points?metric=${part(metric)}&limit=1000`);
    if (points.length > 1) parts.push(plotted(metric, points.map(({ step, value }) => [step, value])));
  }
  parts.push(made("pre", lines.slice(-200).map((line) => line.text).join("\n")));
  $("job").replaceChildren(...parts);
}

function plotted(metric, curve) {
  const SVG = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(SVG, "svg");
  const line = document.createElementNS(SVG, "polyline");
  const [xs, ys] = [curve.map(([x]) => x), curve.map(([, y]) => y)];
  const [left, low] = [Math.min(...xs), Math.min(...ys)];
  const [width, height] = [Math.max(...xs) - left || 1, Math.max(...ys) - low || 1];
  svg.setAttribute("viewBox", "-2 -2 104 104");
  svg.setAttribute("preserveAspectRatio", "none");
  line.setAttribute("points", curve.map(([x, y]) => `${(100 * (x - left)) / width},${100 - (100 * (y - low)) / height}`).join(" "));
  svg.append(line);
  const figure = document.createElement("figure");
  const last = ys[ys.length - 1];
  figure.append(made("figcaption", `${metric}: ${last.toPrecision(4)} (${low.toPrecision(4)} to ${(low + height).toPrecision(4)})`), svg);
  return figure;
}

// loops

async function showLoops() {
  const { loops } = await get("/v1/loops");
  $("loop-cards").replaceChildren(...loops.map(loopCard));
  if (!loops.length) say("No loop is set: hybridge loop set FILE.toml");
}

function loopCard(loop) {
  const { settings, cycle, unreadable, last } = loop;
  const element = made("article", "", { className: "card" });
  const shown = cycle ?? last;
  const now = cycle ? cycle.phase.replace("_", " ") : unreadable ? `${unreadable} cannot be read` : settings.enabled ? "waits for a trigger" : "off";
  element.append(made("h2", `${settings.model}: ${now}`));
  const model = part(settings.model);
  const comment = made("input", "", { placeholder: "why", size: 30, maxLength: 500 });
  const because = () => {
    if (!comment.value) throw new Error("Say why first: it stays with the cycle.");
    return comment.value;
  };
  if (shown) element.append(arrows(shown), ...words(shown));
  const decide = (verb) => async () => {
    await ask("POST", `/v1/cycles/${part(cycle.id)}/decide`, { verb, comment: because() }, cycle.revision);
    await showLoops();
  };
  const row = made("p", "");
  row.append(comment);
  if (!cycle && !unreadable) row.append(button("Begin a cycle", async () => {
    await ask("POST", `/v1/loops/${model}/begin`, { comment: because() });
    await showLoops();
  }));
  if (cycle?.asks) row.append(button(`Go: ${cycle.asks.replace("_", " ")}`, decide("go")));
  if (cycle) row.append(button("Stop", decide("stop")));
  element.append(row);
  return element;
}

function arrows(cycle) {
  const list = made("ol", "", { className: "arrows" });
  const ended = cycle.rollout ? "rollout" : cycle.version ? "evaluate" : cycle.data_set ? "train" : "data_set";
  const over = OVER.includes(cycle.phase);
  const here = cycle.phase === "done" ? ARROWS.length : ARROWS.indexOf(cycle.asks ?? (over ? ended : AT[cycle.phase]));
  ARROWS.forEach((arrow, number) => {
    const at = over ? "ended" : cycle.asks === arrow ? "asks" : "now";
    list.append(made("li", arrow.replace("_", " "), { className: number < here ? "done" : number === here ? at : "" }));
  });
  return list;
}

function words(cycle) {
  const found = [made("p", `${cycle.id}: ${cycle.trigger_words} (${when(cycle.begun_at)})`)];
  if (cycle.waits_for) found.push(made("p", `waits for ${cycle.waits_for}`));
  if (cycle.why) found.push(made("p", cycle.why));
  for (const one of cycle.findings) {
    found.push(made("p", `${one.holds ? "✓" : "✗"} ${one.name}: ${one.words}`, { className: one.holds ? "finding" : "finding no" }));
  }
  return found;
}

// the page

const SHOW = { feedback: showFeedback, jobs: showJobs, loops: showLoops };

function open(tab) {
  for (const main of document.querySelectorAll("main")) main.hidden = main.id !== tab;
  for (const one of document.querySelectorAll("nav button")) one.ariaCurrent = one.dataset.tab === tab ? "page" : null;
  sessionStorage.setItem("tab", tab);
  say("");
  return trying(SHOW[tab]);
}

const isTyping = () =>
  document.activeElement?.tagName === "INPUT" || [...document.querySelectorAll("#loop-cards input")].some((one) => one.value);

$("key").value = sessionStorage.getItem("key") ?? "";
$("filters").elements.names.value = sessionStorage.getItem("names") ?? "";
$("key").onchange = () => {
  sessionStorage.setItem("key", $("key").value);
  open(sessionStorage.getItem("tab") ?? "feedback");
};
$("filters").onsubmit = (event) => {
  event.preventDefault();
  sessionStorage.setItem("names", $("filters").elements.names.value);
  trying(() => showSamples(null));
};
$("more").onclick = () => trying(() => showSamples(next));
for (const one of document.querySelectorAll("nav button")) one.onclick = () => open(one.dataset.tab);
setInterval(() => {
  if (document.hidden || isTyping()) return;
  if (!$("loops").hidden) trying(showLoops);
  if (!$("jobs").hidden) trying(showJobs);
}, EVERY_MS);
open(sessionStorage.getItem("tab") ?? "feedback");
