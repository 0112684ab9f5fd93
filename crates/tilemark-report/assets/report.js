"use strict";
// Draws the charts of the page from the data in it. It computes no figure: every one is in the data.
(() => {
  const root = document.documentElement;
  const errors = [];
  const failed = (what) => { errors.push(String(what)); root.dataset.errors = errors.join(" | "); };
  addEventListener("error", (event) => failed(event.message));
  addEventListener("unhandledrejection", (event) => failed(event.reason));
  addEventListener("securitypolicyviolation", (event) => failed("policy: " + event.violatedDirective));
  root.dataset.errors = "";

  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const narrow = "\u202f";
  const escaped = echarts.format.encodeHTML;
  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const font = getComputedStyle(document.body).fontFamily;

  // Figures as the rest of the page writes them: three significant digits, thousands apart.
  function three(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    const places = Math.max(0, 2 - Math.floor(Math.log10(Number(size.toPrecision(3)))));
    const rounded = size >= 1000 ? Number(size.toPrecision(3)) : size;
    const [whole, part] = rounded.toFixed(Math.min(places, 12)).split(".");
    const text = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part === undefined ? "" : "." + part);
    return (value < 0 ? "−" : "") + text;
  }
  // Labels of an axis: no zeros that say nothing.
  const brief = (value) => three(value).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  // A limit that somebody wrote, in full.
  const exact = (value) => {
    const [whole, part] = String(Number(value.toPrecision(12))).split(".");
    return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part === undefined ? "" : "." + part);
  };
  const percent = (part) => {
    const value = part * 100;
    if (value > 99.99 && value < 100) return ">99.99" + narrow + "%";
    if (value >= 99.9 && value < 100) return (Math.floor(value * 100) / 100).toFixed(2) + narrow + "%";
    return (value === 100 ? "100" : three(value)) + narrow + "%";
  };

  // --- A scale of logarithms where values reach far, else from 0 --------------------------------------------
  function scaleOf(values, from) {
    const all = values.filter((value) => Number.isFinite(value) && value > 0);
    const low = Math.min(...all), high = Math.max(...all);
    if (all.length === 0) return { log: false, to: (value) => value, from: (value) => value, axis: {} };
    if (high / low <= (from || 8)) {
      return { log: false, to: (value) => value, from: (value) => value, axis: { min: 0, max: nice(high * 1.08), splitNumber: 5 } };
    }
    const pad = Math.log10(high / low) * 0.06 + 0.02;
    const min = Math.log10(low) - pad, max = Math.log10(high) + pad;
    const marks = [];
    const wide = max - min > 3.4;
    for (let power = Math.floor(min); power <= Math.ceil(max); power++) {
      for (const digit of wide ? [1] : max - min > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 5, 7]) {
        const at = Math.log10(digit) + power;
        if (at >= min && at <= max) marks.push(at);
      }
    }
    const custom = { customValues: marks };
    return { log: true, to: Math.log10, from: (value) => 10 ** value, axis: { min, max, axisTick: custom, axisLabel: custom, splitLine: custom } };
  }
  // An axis around the values: a change of a few parts in a hundred is seen.
  function zoomed(values) {
    const all = values.filter(Number.isFinite), low = Math.min(...all), high = Math.max(...all);
    const pad = (high - low) * 0.12 || Math.abs(high) * 0.1 || 1;
    return { min: Math.max(0, low - pad), max: high + pad, scale: true, splitNumber: 5, axisLabel: { showMinLabel: false, showMaxLabel: false } };
  }
  function nice(value) {
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value * 0.999) || value;
  }

  // --- What all charts share --------------------------------------------------------------------------------
  const textStyle = (name, size) => ({ color: colour(name || "soft"), fontFamily: font, fontSize: size || 12 });
  const tooltip = (formatter, more) => ({
    trigger: "item", confine: true, backgroundColor: colour("ink"), borderWidth: 0, padding: [7, 11],
    textStyle: { color: colour("paper"), fontFamily: font, fontSize: 12.5 }, extraCssText: "max-width:360px;white-space:normal;border-radius:4px;font-variant-numeric:tabular-nums",
    formatter, transitionDuration: 0, ...more,
  });
  const lines = (parts) => parts.filter((part) => part !== null && part !== undefined && part !== "").map(escaped).join("<br>");
  // A step in words: `2 tiles`, `64 KiB size`; roles say by themselves what they are.
  const stepWords = (label) => (data.axis === "roles" ? label : data.axis === "tiles" && label === "1" ? "1 tile" : `${label} ${data.axis}`);
  const category = (labels, more) => ({
    type: "category", data: labels, axisLine: { lineStyle: { color: colour("faint") } }, axisTick: { show: false },
    axisLabel: { ...textStyle("ink"), hideOverlap: true, margin: 8 }, nameTextStyle: textStyle(), ...more,
  });
  const values = (more) => {
    const merged = { type: "value", axisLine: { show: false }, nameTextStyle: textStyle(), ...more };
    merged.axisLabel = { ...textStyle(), ...(more && more.axisLabel) };
    merged.axisTick = { show: false, ...(more && more.axisTick) };
    merged.splitLine = { lineStyle: { color: colour("line"), width: 1 }, ...(more && more.splitLine) };
    return merged;
  };
  const decal = () => ({ symbol: "rect", dashArrayX: [1, 0], dashArrayY: [2, 5], rotation: -Math.PI / 4, color: colour("panel") });
  const stripes = () => ({ symbol: "rect", dashArrayX: [1, 0], dashArrayY: [1.5, 4], rotation: Math.PI / 4, color: colour("faint") });
  const signs = { holds: "circle", breaks: "diamond", undecided: "emptyCircle", "cannot tell": "emptyCircle" };
  const outcomeInk = (point, ink) => (point.outcome === "breaks" ? colour("bad") : point.outcome === "undecided" ? colour("warn") : ink);
  const widthOf = (id) => byId(id).clientWidth;

  // A load has one colour in every chart: the headline load the accent, the others by their place in the plan.
  const loadInks = ["line-a", "line-b", "line-c", "line-d"];
  const others = data.loads.filter((name) => name !== data.headline);
  const inkOfLoad = (name) => (name === data.headline ? "accent" : loadInks[Math.max(0, others.indexOf(name)) % loadInks.length]);

  function legend(id, entries) {
    const place = byId(id);
    if (!place) return;
    place.replaceChildren(...entries.map(({ name, draw, tip }) => {
      const item = document.createElement("span");
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      svg.setAttribute("width", draw[0][0] === "rect" ? "12" : "22"); svg.setAttribute("height", "12"); svg.setAttribute("aria-hidden", "true");
      for (const [tag, attributes] of draw) {
        const part = document.createElementNS("http://www.w3.org/2000/svg", tag);
        for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value);
        svg.append(part);
      }
      const label = document.createElement(tip ? "dfn" : "span");
      if (tip) { label.tabIndex = 0; label.dataset.tip = tip; }
      label.textContent = name;
      item.append(svg, label);
      return item;
    }));
  }
  const stroke = (ink, dash) => ["line", { x1: 0, y1: 6, x2: 22, y2: 6, stroke: ink, "stroke-width": 2, "stroke-dasharray": dash || "none" }];
  const box = (ink) => ["rect", { x: 0.5, y: 0.5, width: 11, height: 11, rx: 1.5, fill: ink, stroke: colour("faint"), "stroke-width": 0.5 }];
  const slash = () => ["path", { d: "M1 11 L11 1 M1 6 L6 1 M6 11 L11 6", stroke: colour("faint"), "stroke-width": 1.2 }];
  const dot = (ink) => ["circle", { cx: 11, cy: 6, r: 4, fill: ink }];
  const diamond = (ink) => ["path", { d: "M11 0.5 L16.5 6 L11 11.5 L5.5 6Z", fill: ink }];
  const ring = (ink) => ["circle", { cx: 11, cy: 6, r: 3.5, fill: "none", stroke: ink, "stroke-width": 1.6 }];
  const cross = (ink) => ["path", { d: "M8 3 L14 9 M14 3 L8 9", stroke: ink, "stroke-width": 1.6 }];

  // An interval: a bar from low to high with short ends.
  function whisker(ink, horizontal, faint) {
    return (params, api) => {
      const at = api.value(0), low = api.coord(horizontal ? [api.value(1), at] : [at, api.value(1)]);
      const high = api.coord(horizontal ? [api.value(2), at] : [at, api.value(2)]);
      const style = { stroke: typeof ink === "function" ? ink(params.dataIndex) : ink, lineWidth: faint ? 1 : 1.6, fill: null, opacity: faint ? 0.3 : 1 };
      const end = faint ? 0 : 4;
      const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
      return { type: "group", children: horizontal
        ? [line(low[0], low[1], high[0], high[1]), line(low[0], low[1] - end, low[0], low[1] + end), line(high[0], high[1] - end, high[0], high[1] + end)]
        : [line(low[0], low[1], high[0], high[1]), line(low[0] - end, low[1], low[0] + end, low[1]), line(high[0] - end, high[1], high[0] + end, high[1])] };
    };
  }

  // --- p99 against tiles, and the achieved share below -------------------------------------------------------
  function latency() {
    // Several groups of the headline load are distinguished by colours that no load has.
    let spare = others.length;
    const leading = data.lines.find((line) => line.kind === "main" || line.kind === "emulated");
    const drawn = data.lines.map((line) => {
      const lead = line === leading;
      const ink = line.kind === "twin" ? "twin" : lead || line.load !== data.headline ? inkOfLoad(line.load) : loadInks[spare++ % loadInks.length];
      return { ...line, lead, ink: colour(ink) };
    });
    const all = drawn.flatMap((line) => line.points.flatMap((point) => [point.value, point.low, point.high]));
    const scale = scaleOf([...all, data.gate.p99_ms, ...data.raw.map((repeat) => repeat.value)]);
    const to = (value) => (value === null || value === undefined || value <= 0 ? null : scale.to(value));
    const achieved = drawn.filter((line) => line.lead || line.kind === "twin").flatMap((line) => line.points.map((point) => point.achieved)).filter((value) => value !== null);
    const width = widthOf("chart-latency");
    const series = [];
    for (const line of drawn) {
      const hint = (point) => lines([
        `${line.name}, ${stepWords(data.steps[point.step])}`,
        `p99 ${three(point.value)} ms` + (point.low === null ? ", no interval" : ` [${three(point.low)}, ${three(point.high)}]`) + (point.n ? `, ${point.n} repeats` : ""),
        point.offered === null ? "" : `asked ${three(point.offered)}/s`,
        point.achieved === null ? "" : `achieved ${percent(point.achieved)}`,
        point.broke, point.outcome === "undecided" ? "undecided" : "", point.struck ? "not trusted" : "", line.kind === "emulated" ? "emulated: says nothing about this host" : "",
      ]);
      const measured = line.points.filter((point) => to(point.value) !== null).sort((a, b) => a.step - b.step);
      series.push({
        type: "line", name: line.name, z: line.lead ? 5 : 3, xAxisIndex: 0, yAxisIndex: 0, symbolSize: line.lead ? 9 : 6, showAllSymbol: true, animation: false,
        lineStyle: { color: line.ink, width: line.lead ? 2.2 : 1.4, type: line.kind === "twin" || line.kind === "emulated" ? [6, 4] : "solid" },
        itemStyle: { color: line.ink }, emphasis: { scale: 1.3 },
        data: measured.map((point) => ({
          value: [point.step, to(point.value)], point, hint: hint(point),
          symbol: point.struck ? "path://M-5 -5 L5 5 M5 -5 L-5 5" : signs[point.outcome] || "circle",
          symbolSize: point.outcome === "breaks" ? (line.lead ? 13 : 10) : line.lead ? 9 : 6,
          itemStyle: { color: outcomeInk(point, line.ink), borderColor: point.struck ? colour("bad") : outcomeInk(point, line.ink), borderWidth: point.struck || signs[point.outcome] === "emptyCircle" ? 1.8 : 0 },
        })),
      });
      const spans = measured.filter((point) => point.low !== null && point.high !== null && point.low > 0);
      if (spans.length > 0) series.push({
        type: "custom", silent: true, z: 4, animation: false, xAxisIndex: 0, yAxisIndex: 0, renderItem: whisker(line.ink), clip: true,
        data: spans.map((point) => [point.step, to(point.low), to(point.high)]), encode: { x: 0, y: [1, 2] },
      });
    }
    series.push({
      type: "scatter", z: 2, animation: false, xAxisIndex: 0, yAxisIndex: 0, data: data.raw.filter((repeat) => to(repeat.value) !== null).map((repeat) => ({
        value: [repeat.step, to(repeat.value)], symbol: repeat.void ? "path://M-4 -4 L4 4 M4 -4 L-4 4" : "circle", symbolSize: repeat.void ? 8 : 4,
        symbolOffset: [repeat.void ? 13 : 12, 0],
        itemStyle: repeat.void ? { color: "none", borderColor: colour("faint"), borderWidth: 1.4 } : { color: colour("accent"), opacity: 0.45 },
        hint: lines([`repeat ${repeat.repeat}: p99 ${three(repeat.value)} ms`, repeat.void ? `discarded: ${repeat.void}` : "kept"]),
      })),
    });
    // Steps that are undecided: a band behind each.
    const undecided = drawn.filter((line) => line.lead).flatMap((line) => line.points.filter((point) => point.outcome === "undecided" && !point.struck));
    if (undecided.length > 0) series.push({
      type: "custom", silent: true, z: 0, animation: false, xAxisIndex: 0, yAxisIndex: 0, clip: true, data: undecided.map((point) => [point.step, to(data.gate.p99_ms)]),
      renderItem: (params, api) => {
        const wide = api.size([1, 0])[0], at = api.coord([api.value(0), api.value(1)])[0];
        return { type: "rect", shape: { x: at - wide / 2, y: params.coordSys.y, width: wide, height: params.coordSys.height }, style: { fill: colour("warn-wash") } };
      },
    });
    series[0].markLine = {
      silent: true, symbol: "none", animation: false, lineStyle: { color: colour("bad"), width: 1.4, type: "solid" }, data: [{ yAxis: to(data.gate.p99_ms) }],
      label: { position: "insideStartTop", formatter: `gate ${exact(data.gate.p99_ms)} ms`, color: colour("bad"), fontFamily: font, fontSize: 11.5, fontWeight: 600, distance: [2, 3] },
    };
    const lowest = Math.min(1, ...achieved, data.gate.achieved);
    const floor = lowest > 0.985 ? 0.98 : lowest > 0.93 ? 0.9 : lowest > 0.78 ? 0.75 : lowest > 0.5 ? 0.5 : 0;
    if (achieved.length > 0) {
      for (const line of drawn.filter((line) => line.lead || line.kind === "twin")) series.push({
        type: "line", xAxisIndex: 1, yAxisIndex: 1, animation: false, symbol: "circle", symbolSize: 5, showAllSymbol: true, z: line.lead ? 5 : 3,
        lineStyle: { color: line.ink, width: line.lead ? 1.8 : 1.2, type: line.kind === "twin" ? [6, 4] : "solid" }, itemStyle: { color: line.ink },
        data: line.points.filter((point) => point.achieved !== null).sort((a, b) => a.step - b.step).map((point) => ({
          value: [point.step, point.achieved], hint: lines([`${line.name}, ${stepWords(data.steps[point.step])}`, `achieved ${percent(point.achieved)} of the demand`]),
          itemStyle: { color: point.achieved < data.gate.achieved ? colour("bad") : line.ink }, symbol: point.achieved < data.gate.achieved ? "diamond" : "circle", symbolSize: point.achieved < data.gate.achieved ? 9 : 5,
        })),
        markLine: line.lead ? { silent: true, symbol: "none", animation: false, lineStyle: { color: colour("bad"), width: 1.2, type: "solid" }, data: [{ yAxis: data.gate.achieved }], label: { show: false } } : undefined,
      });
    }
    const below = achieved.length > 0 ? 64 : 0;
    const inkOf = Object.fromEntries(drawn.map((line) => [line.name, line]));
    legend("legend-latency", [
      ...drawn.map((line) => ({ name: line.name, draw: [stroke(inkOf[line.name].ink, line.kind === "twin" || line.kind === "emulated" ? "5 3" : ""), ...(line.kind === "twin" && line.points.length > 1 ? [] : [dot(line.ink)])] })),
      ...(drawn.some((line) => line.points.some((point) => point.outcome === "breaks" && !point.struck)) ? [{ name: "breaks", draw: [diamond(colour("bad"))] }] : []),
      ...(undecided.length > 0 ? [{ name: "undecided", draw: [ring(colour("warn"))] }] : []),
      ...(data.raw.some((repeat) => repeat.void) ? [{ name: "discarded", draw: [cross(colour("faint"))] }] : []),
    ]);
    return {
      animation: false, tooltip: tooltip((item) => item.data.hint || ""),
      grid: [
        { outerBoundsMode: "none", left: 52, right: 14, top: 12, bottom: 42 + below + (below ? 20 : 0) },
        { outerBoundsMode: "none", left: 52, right: 14, bottom: 42, height: Math.max(below - 16, 1), show: false },
      ],
      xAxis: [
        category(data.steps, { gridIndex: 0, axisLabel: below ? { show: false } : { ...textStyle("ink"), hideOverlap: true }, name: below ? "" : data.axis, nameLocation: "middle", nameGap: 26 }),
        category(data.steps, { gridIndex: 1, show: below > 0, name: data.axis, nameLocation: "middle", nameGap: 26, axisLabel: { ...textStyle("ink"), hideOverlap: true, width: Math.max(28, width / data.steps.length - 6), overflow: "truncate" } }),
      ],
      yAxis: [
        values({ gridIndex: 0, ...scale.axis, axisLabel: { ...(scale.axis.axisLabel || {}), formatter: (value) => brief(scale.from(value)) } }),
        values({ gridIndex: 1, show: below > 0, min: floor, max: 1, interval: 1 - floor, axisLabel: { formatter: (value) => `${Math.round(value * 100)}${narrow}%` },
          name: below ? `achieved share of demand, gate ${exact(data.gate.achieved * 100)}${narrow}%` : "", nameLocation: "end", nameGap: 8, nameTextStyle: { ...textStyle("soft", 11.5), align: "left", padding: [0, 0, 0, 4] } }),
      ],
      series,
    };
  }

  // --- The charts of sections: lines over named places, what a run measured beside what was published -------------
  const ourInks = ["accent", "line-a", "line-b", "line-c"];
  const publishedInks = ["faint", "twin"];
  const strokes = {
    main: { z: 5, size: 7, width: 2, type: "solid", legend: "" }, dashed: { z: 4, size: 4, width: 1.5, type: [6, 4], legend: "5 3" }, dotted: { z: 4, size: 4, width: 1.5, type: [2, 3], legend: "2 3" },
    hollow: { z: 4, size: 8, width: 0, type: "solid", legend: "" }, dots: { z: 5, size: 6, width: 0, type: "solid", legend: "" }, odd: { z: 6, size: 8, width: 0, type: "solid", legend: "" },
    published: { z: 2, size: 4, width: 1.4, type: "solid", legend: "" }, "published-dashed": { z: 2, size: 3, width: 1.2, type: [6, 4], legend: "5 3" },
  };
  const crossed = "path://M-5 -5 L5 5 M5 -5 L-5 5";
  const thousands = (value) => (value >= 1e6 ? `${brief(value / 1e6)} M` : value >= 1e3 ? `${brief(value / 1e3)} k` : brief(value));
  const ofSection = (chart) => () => {
    const scales = [false, true].map((right) => {
      const all = chart.series.filter((one) => one.right === right).flatMap((one) => one.points.flatMap((point) => [point.value, ...(point.bar || [])]));
      return chart.zoomed && !right ? { to: (value) => value, from: (value) => value, axis: zoomed(all) } : scaleOf(all);
    });
    const series = [], entries = [], marks = chart.marks || [], levels = chart.levels || [];
    // Of hundreds of runs, marks and intervals must not hide each other.
    const crowded = chart.places.length > 80;
    for (const one of chart.series) {
      const look = strokes[one.stroke], scale = scales[one.right ? 1 : 0];
      const inks = one.stroke.startsWith("published") ? publishedInks : ourInks;
      const ink = colour(one.stroke === "odd" ? "bad" : inks[one.colour % inks.length]);
      series.push({
        type: "line", name: one.name, animation: false, showAllSymbol: true, z: look.z, yAxisIndex: one.right ? 1 : 0, symbolSize: crowded ? look.size / 2 : look.size, lineStyle: { color: ink, width: crowded ? look.width / 2 : look.width, type: look.type }, itemStyle: { color: ink }, emphasis: { scale: 1.3 },
        data: one.points.filter((point) => point.value > 0).map((point) => ({ value: [point.place, scale.to(point.value)], hint: lines(point.lines), ...(point.struck ? { symbol: crossed, symbolSize: 9, itemStyle: { color: "none", borderColor: colour("bad"), borderWidth: 1.6 } }
          : one.stroke === "hollow" ? { symbol: "circle", itemStyle: { color: colour("paper"), borderColor: colour("faint"), borderWidth: 1.6 } } : { symbol: "circle" }) })),
      });
      const bars = one.points.filter((point) => point.bar && point.bar[0] > 0);
      if (bars.length > 0) series.push({ type: "custom", silent: true, z: 6, animation: false, yAxisIndex: one.right ? 1 : 0, renderItem: whisker(ink, false, crowded), clip: true, data: bars.map((point) => [point.place, ...point.bar.map(scale.to)]), encode: { x: 0, y: [1, 2] } });
      if (one.legend) entries.push({ name: one.legend, draw: one.stroke === "hollow" ? [ring(colour("faint"))] : look.width === 0 ? [dot(ink)] : [stroke(ink, look.legend), ...(one.stroke === "main" ? [dot(ink)] : [])] });
    }
    // Before a place: what changed there, and where the level did. Names where there is room for them, in three rows.
    const within = marks.length || levels.length ? scales[0].to(chart.series.flatMap((one) => one.points).map((point) => point.value)[0] || 0) : 0;
    const before = (api, place) => api.coord([place, within])[0] - api.size([1, 0])[0] / 2;
    const named = marks.length > 0 && marks.length <= 12;
    if (marks.length > 0) {
      series.push({ type: "custom", silent: true, z: 1, animation: false, data: marks.map((mark, index) => [mark.place, within, index]), encode: { x: 0, y: 1 },
        renderItem: (params, api) => {
          const mark = marks[api.value(2)], area = params.coordSys, x = before(api, mark.place);
          const style = mark.level ? { stroke: colour("bad"), lineWidth: 1.8 } : { stroke: colour("faint"), lineWidth: 1, lineDash: [3, 3] };
          const end = x > area.x + area.width * 0.75, row = area.y - 9 - 13 * (api.value(2) % 3);
          const line = { type: "line", shape: { x1: x, y1: named && mark.label ? row : area.y, x2: x, y2: area.y + area.height }, style };
          const text = { type: "text", x: x + (end ? -4 : 4), y: row, style: { text: mark.label, fill: colour(mark.level ? "bad" : "soft"), font: `11px ${font}`, textAlign: end ? "right" : "left", textVerticalAlign: "middle" } };
          return { type: "group", children: named && mark.label ? [line, text] : [line] };
        } });
      if (marks.some((mark) => !mark.level)) entries.push({ name: "host or programs changed", draw: [stroke(colour("faint"), "3 3")] });
      if (marks.some((mark) => mark.level)) entries.push({ name: "the level changed", draw: [stroke(colour("bad"))] });
    }
    if (levels.length > 0) {
      series.push({ type: "custom", silent: true, z: 3, animation: false, data: levels.map((level, index) => [level.from, scales[0].to(level.value), index]), encode: { x: 0, y: 1 },
        renderItem: (params, api) => {
          const level = levels[api.value(2)], y = api.coord([level.from, api.value(1)])[1];
          return { type: "line", shape: { x1: before(api, level.from), y1: y, x2: before(api, level.to), y2: y }, style: { stroke: colour("bad"), lineWidth: 1.2, lineDash: [6, 4], opacity: 0.8 } };
        } });
      entries.push({ name: "level (median)", draw: [stroke(colour("bad"), "5 3")] });
    }
    legend(`legend-${chart.id}`, entries);
    const axis = (scale, label, more) => values({ ...scale.axis, axisLabel: { ...(scale.axis.axisLabel || {}), formatter: (value) => label(scale.from(value)) }, ...more });
    const right = { position: "right", splitLine: { show: false }, name: chart.right, nameLocation: "middle", nameGap: 46, nameRotate: 90, nameMoveOverlap: false };
    return {
      animation: false, tooltip: tooltip((item) => item.data.hint || ""),
      grid: { outerBoundsMode: "none", left: 58, right: chart.right ? 62 : 14, top: named ? 48 : 12, bottom: 42 },
      xAxis: category(chart.places, { name: chart.across, nameLocation: "middle", nameGap: 26, axisLine: { onZero: false, lineStyle: { color: colour("faint") } }, axisLabel: { ...textStyle("ink"), hideOverlap: true } }),
      yAxis: [axis(scales[0], thousands), ...(chart.right ? [axis(scales[1], brief, right)] : [])],
      series,
    };
  };

  // --- CPU time by use ---------------------------------------------------------------------------
  const parts = [
    ["guest_work", "guest work", "guest", "Processor time spent inside guests, doing what they are for."],
    ["guest_overhead", data.qemu_ran ? "QEMU & host kernel" : "host kernel", "overhead", "Processor time that the host spends on behalf of guests: devices, network, exits."],
    ["load", "load", "load", "Sending requests and checking answers. It has processors of its own."],
    ["tilemark", "Tilemark", "tilemark", "Telemetry, keeper and pipeline."],
    ["other", "other", "other", "Everything on this host that is not part of the run."],
    ["steal", "steal", "steal", "Taken away by the hypervisor under this host."],
    ["idle_of_load", "idle, the load's own", "idle", "At most this much of the load's own processors was not used. Guests may not use it."],
    ["idle", "idle", "idle", "Time that was not used, and that guests could have had."],
  ];
  const isIdle = (key) => key.startsWith("idle");
  function processors() {
    const bars = data.processors;
    const slot = (widthOf("chart-processors") - 56) / Math.max(bars.length, 1);
        const blank = bars.map((bar) => (bar.parts ? bar.limit || "" : "no figures"));
    const longest = Math.max(...blank.map((word) => word.length), 0);
    const upright = slot < longest * 6.9, size = slot < longest * 7.8 && !upright ? 10.5 : 11.5;
    const names = Math.max(...bars.map((bar) => bar.label.length), 0);
    // Roles are read along their bars: cut to the width of a bar they would all be alike.
    const along = data.axis === "roles" && names * 7 > slot;
    const foot = along ? names * 6.4 : 26;
    const series = parts.filter(([key]) => key === "idle" || bars.some((bar) => bar.parts && bar.parts[key] >= 0.005)).map(([key, name, ink]) => ({
      type: "bar", stack: "all", name, barWidth: Math.min(slot * 0.72, 52), animation: false,
      itemStyle: { color: colour(ink), borderColor: colour("paper"), borderWidth: slot > 16 ? 0.8 : 0, decal: key === "idle_of_load" ? stripes() : data.emulated && !isIdle(key) ? decal() : undefined },
      data: bars.map((bar) => ({
        value: bar.parts ? bar.parts[key] * 100 : null, itemStyle: { opacity: bar.struck ? 0.45 : 1 },
        hint: bar.parts ? lines([stepWords(bar.label) + (bar.struck ? ", not trusted" : ""), ...parts.map(([part, word]) => `${word} ${percent(bar.parts[part])}`), bar.limit ? `limit: ${bar.limit}` : ""]) : "",
      })),
    }));
    legend("legend-processors", parts.filter(([, name]) => series.some((one) => one.name === name)).map(([, name, ink, tip]) => ({ name, tip, draw: [box(colour(ink)), ...(name === "idle, the load's own" ? [slash()] : [])] })));
    return {
      animation: false, tooltip: tooltip((item) => item.data.hint || "", { trigger: "item" }),
      grid: { outerBoundsMode: "none", left: 44, right: 8, top: longest === 0 ? 12 : upright ? 18 + longest * 6.6 : 30, bottom: foot + 16 },
      xAxis: [
        category(bars.map((bar) => bar.label), { name: along ? "" : data.axis, nameLocation: "middle", nameGap: foot, axisLabel: { ...textStyle("ink"), hideOverlap: !along, ...(along ? { rotate: 90, interval: 0 } : names * 7 > slot ? { width: Math.max(slot - 4, 26), overflow: "truncate" } : {}) } }),
        category(blank, { position: "top", axisLine: { show: false }, axisLabel: { ...textStyle("ink", size), interval: 0, hideOverlap: false, rotate: upright ? 90 : 0, margin: 6, color: (_, index) => colour(bars[index] && bars[index].outcome === "breaks" ? "bad" : "soft"), fontWeight: 600 } }),
      ],
      yAxis: values({ min: 0, max: 100, interval: 25, axisLabel: { formatter: (value) => `${value}${narrow}%` } }),
      series,
    };
  }

  // --- Two sides: the change of each measure, with the margin within which a change is none ---------------
  function forest() {
    const rows = data.forest;
    const reach = Math.max(0.005, ...rows.flatMap((row) => [row.low, row.high, row.value, row.band].filter(Number.isFinite).map(Math.abs))) * 100;
    const limit = nice(reach * 1.1);
    const width = widthOf("chart-forest");
    const inks = { better: "good", worse: "bad", "no difference": "soft", "cannot tell": "warn" };
    const ink = (index) => colour(inks[rows[index].outcome] || "soft");
    const left = Math.min(190, width * 0.3), right = Math.min(178, width * 0.3);
    legend("legend-forest", [
      { name: "margin", draw: [["rect", { x: 0.5, y: 0.5, width: 11, height: 11, fill: colour("idle") }]], tip: "The whole interval must lie inside this band to be no difference. In records of older versions the band is what could not have been seen." },
      { name: "better", draw: [dot(colour("good"))] }, { name: "worse", draw: [diamond(colour("bad"))] }, { name: "no difference", draw: [ring(colour("soft"))] },
    ]);
    return {
      animation: false, tooltip: tooltip((item) => {
        const row = rows[item.data && item.data.row !== undefined ? item.data.row : item.dataIndex];
        return lines([row.name, row.text, row.p === null ? "" : `p = ${three(row.p)}`, row.resolution === null ? "smallest change visible: not known" : `smallest change visible ${percent(row.resolution)}`, `n = ${row.pairs} a side`, row.outcome, row.primary ? "" : "not a primary measure"]);
      }),
      grid: { outerBoundsMode: "none", left, right, top: 8, bottom: 42 },
      xAxis: values({ min: -limit, max: limit, splitLine: { showMinLine: false, showMaxLine: false }, name: "change from A to B, %", nameLocation: "middle", nameGap: 26, axisLabel: { formatter: (value) => (value > 0 ? "+" : "") + brief(value), hideOverlap: true, showMinLabel: false, showMaxLabel: false } }),
      yAxis: [
        category(rows.map((row) => row.name), { inverse: true, axisLine: { show: false }, axisLabel: { ...textStyle("ink"), interval: 0, width: left - 14, overflow: "break", lineHeight: 15 } }),
        category(rows.map((row) => row.text), { inverse: true, position: "right", axisLine: { show: false }, axisLabel: { ...textStyle("ink"), interval: 0, width: right - 12, overflow: "break", lineHeight: 15 } }),
      ],
      series: [
        { type: "custom", animation: false, silent: true, z: 1, clip: true, encode: { x: [1, 2], y: 0 }, data: rows.map((row, index) => [index, row.band === null ? 0 : -row.band * 100, row.band === null ? 0 : row.band * 100]),
          renderItem: (params, api) => {
            const low = api.coord([api.value(1), api.value(0)]), high = api.coord([api.value(2), api.value(0)]);
            const tall = Math.min(api.size([0, 1])[1] * 0.78, 46);
            return { type: "rect", shape: { x: low[0], y: low[1] - tall / 2, width: high[0] - low[0], height: tall }, style: { fill: colour("idle") } };
          } },
        { type: "custom", animation: false, silent: true, z: 3, clip: true, encode: { x: [1, 2], y: 0 }, renderItem: (params, api) => whisker(ink(rows.indexOf(rows.filter((row) => row.low !== null && row.high !== null)[params.dataIndex])), true)(params, api),
          data: rows.map((row, index) => [row, index]).filter(([row]) => row.low !== null && row.high !== null).map(([row, index]) => [index, row.low * 100, row.high * 100]) },
        { type: "scatter", animation: false, z: 4, data: rows.map((row, index) => ({
          value: [row.value * 100, index], row: index, symbol: row.outcome === "worse" ? "diamond" : "circle", symbolSize: row.primary ? 12 : 9,
          itemStyle: row.outcome === "no difference" || row.outcome === "cannot tell" ? { color: colour("paper"), borderColor: ink(index), borderWidth: 2 } : { color: ink(index) } })),
          markLine: { silent: true, symbol: "none", animation: false, label: { show: false }, lineStyle: { color: colour("ink"), width: 1.2, type: "solid" }, data: [{ xAxis: 0 }] } },
      ],
    };
  }

  // --- Time line -------------------------------------------------------------------------------------------
  let chosen = null;
  function steps() {
    const place = (point) => data.details.findIndex((one) => one.index === point);
    const seen = [...new Set(data.timeline.repeats.map((repeat) => repeat.point))].sort((a, b) => place(a) - place(b));
    return seen.map((point) => {
      const detail = data.details[place(point)];
      const name = detail ? stepWords(detail.label) + (data.details.some((one) => one.group !== detail.group) && detail.group ? `, ${detail.group}` : "") + `: ${detail.outcome}` : `point ${point}`;
      return { point, name, detail };
    });
  }
  function timeline() {
    const repeats = data.timeline.repeats.filter((repeat) => repeat.point === chosen);
    const emulated = data.details.some((detail) => detail.index === chosen && detail.kind === "emulated");
    const gap = 2;
    let offset = 0;
    const placed = repeats.map((repeat) => {
      const last = Math.max(0, ...repeat.loads.flatMap((load) => load.marks.map((mark) => mark[0])), ...repeat.host.map((mark) => mark[0]));
      const start = offset;
      offset += last + data.timeline.seconds_per_mark + gap;
      return { ...repeat, start, end: start + last };
    });
    const names = [...new Set(repeats.flatMap((repeat) => repeat.loads.map((load) => load.name)))];
    names.sort((a, b) => (b === data.headline) - (a === data.headline));
    const ink = (name) => colour(inkOfLoad(name));
    const worst = placed.flatMap((repeat) => repeat.loads.flatMap((load) => load.marks.map((mark) => mark[5])));
    const scale = scaleOf([...worst, data.gate.p99_ms]);
    const to = (value) => (value === null || value <= 0 ? null : scale.to(value));
    const joined = (pick) => placed.flatMap((repeat, index) => [...pick(repeat), ...(index + 1 < placed.length ? [[repeat.end + 1, null]] : [])]);
    const marksOf = (repeat, name) => (repeat.loads.find((load) => load.name === name) || { marks: [] }).marks;
    const series = names.flatMap((name) => [
      { type: "line", name, xAxisIndex: 0, yAxisIndex: 0, animation: false, showSymbol: false, connectNulls: false, lineStyle: { color: ink(name), width: name === data.headline ? 1.8 : 1.2 }, itemStyle: { color: ink(name) },
        data: joined((repeat) => marksOf(repeat, name).map((mark) => [repeat.start + mark[0], to(mark[5])])) },
      { type: "line", name, xAxisIndex: 1, yAxisIndex: 1, animation: false, showSymbol: false, lineStyle: { color: ink(name), width: name === data.headline ? 1.8 : 1.2 }, itemStyle: { color: ink(name) },
        data: joined((repeat) => marksOf(repeat, name).map((mark) => [repeat.start + mark[0], mark[2]])) },
    ]);
    series.push({ type: "line", name: "asked", xAxisIndex: 1, yAxisIndex: 1, animation: false, showSymbol: false, z: 1, lineStyle: { color: colour("faint"), width: 1, type: [4, 3] }, itemStyle: { color: colour("faint") },
      data: joined((repeat) => marksOf(repeat, data.headline).map((mark) => [repeat.start + mark[0], mark[1]])) });
    ["guest_work", "guest_overhead", "load", "tilemark", "other", "steal"].forEach((key, place) => {
      const [, name, paint] = parts.find(([part]) => part === key);
      series.push({ type: "line", name, stack: "host", xAxisIndex: 2, yAxisIndex: 2, animation: false, showSymbol: false, lineStyle: { width: 0 }, itemStyle: { color: colour(paint) }, areaStyle: { color: colour(paint), opacity: 0.9 },
        data: joined((repeat) => repeat.host.map((mark) => [repeat.start + mark[0], mark[1][place] * 100])) });
    });
    const discarded = placed.filter((repeat) => repeat.void);
    series[0] = series[0] || { type: "line", data: [] };
    series[0].markLine = { silent: true, symbol: "none", animation: false, lineStyle: { color: colour("bad"), width: 1.2, type: "solid" }, label: { show: false }, data: [{ yAxis: to(data.gate.p99_ms) }] };
    series.push({ type: "custom", xAxisIndex: 0, yAxisIndex: 0, silent: true, animation: false, z: 0, data: placed.map((repeat, index) => [repeat.start, repeat.end, index]), encode: { x: [0, 1] },
      renderItem: (params, api) => {
        const repeat = placed[api.value(2)];
        const area = params.coordSys;
        const x1 = api.coord([api.value(0), 0])[0], x2 = api.coord([api.value(1), 0])[0];
        const text = { type: "text", x: (x1 + x2) / 2, y: area.y - 4, style: { text: x2 - x1 > 90 ? `repeat ${repeat.repeat}${repeat.void ? ", discarded" : ""}` : String(repeat.repeat), fill: colour(repeat.void ? "faint" : "soft"), font: `11.5px ${font}`, textAlign: "center", textVerticalAlign: "bottom" } };
        const shade = { type: "rect", shape: { x: x1, y: area.y, width: Math.max(x2 - x1, 1), height: 372 }, style: { fill: repeat.void ? colour("idle") : "none" } };
        return { type: "group", children: [shade, text] };
      } });
    legend("legend-timeline", [
      ...names.map((name) => ({ name, draw: [stroke(ink(name))] })), { name: "asked", draw: [stroke(colour("faint"), "4 3")] }, { name: `gate ${exact(data.gate.p99_ms)} ms`, draw: [stroke(colour("bad"))] },
      ...parts.filter(([key]) => !isIdle(key)).map(([, name, paint]) => ({ name, draw: [box(colour(paint))] })),
      ...(discarded.length ? [{ name: "discarded repeat", draw: [["rect", { x: 0.5, y: 0.5, width: 11, height: 11, fill: colour("idle"), stroke: colour("faint"), "stroke-width": 0.7 }]] }] : []),
      ...(emulated ? [{ name: "EMULATED: says nothing about this host", draw: [cross(colour("warn"))] }] : []),
    ]);
    byId("timeline").classList.toggle("hatched", emulated);
    const x = (index) => values({ gridIndex: index, min: 0, max: Math.max(offset - gap - 1, 1), splitLine: { show: false }, axisLabel: { show: false }, axisLine: { show: true, lineStyle: { color: colour("faint") } } });
    return {
      animation: false, axisPointer: { link: [{ xAxisIndex: "all" }], lineStyle: { color: colour("faint") } },
      tooltip: tooltip((items) => {
        if (!items.length) return "";
        const at = items[0].axisValue, repeat = placed.find((one) => at >= one.start && at <= one.end);
        if (!repeat) return "";
        const second = at - repeat.start;
        const hint = names.map((name) => { const mark = marksOf(repeat, name).find((one) => one[0] === second); return mark ? `${name}: p50 ${three(mark[4])}, p99 ${three(mark[5])}, max ${three(mark[6])} ms; ${three(mark[2])} of ${three(mark[1])}/s` + (mark[3] ? `, ${three(mark[3])} errors/s` : "") : ""; });
        const host = repeat.host.find((mark) => mark[0] === second);
        const used = host ? [0, 1, 2, 3, 4, 5].map((place) => parts[place][1]).map((name, place) => `${name} ${percent(host[1][place])}`).join(", ") : "";
        return lines([`repeat ${repeat.repeat}, second ${second}` + (repeat.void ? ` (discarded: ${repeat.void})` : ""), ...hint, used, host && host[2] !== null ? `${three(host[2] / 1024)} GiB of memory left` : ""]);
      }, { trigger: "axis" }),
      grid: [[24, 170], [222, 90], [340, 66]].map(([top, height]) => ({ outerBoundsMode: "none", left: 76, right: 14, top, height })),
      xAxis: [x(0), x(1), { ...x(2), name: "seconds of each repeat, side by side", nameLocation: "middle", nameGap: 8 }],
      yAxis: [
        values({ gridIndex: 0, name: "p99, ms", nameLocation: "middle", nameGap: 54, nameMoveOverlap: false, ...scale.axis, axisLabel: { ...(scale.axis.axisLabel || {}), formatter: (value) => brief(scale.from(value)) } }),
        values({ gridIndex: 1, name: "answered/s, when due", nameLocation: "middle", nameGap: 54, nameMoveOverlap: false, min: 0, splitNumber: 3, axisLabel: { formatter: brief } }),
        values({ gridIndex: 2, name: "processor", nameLocation: "middle", nameGap: 54, nameMoveOverlap: false, min: 0, max: 100, interval: 50, axisLabel: { formatter: (value) => `${value}${narrow}%` } }),
      ],
      series,
    };
  }

  // --- Throughput in bands per tile --------------------------------------------------------------------------
  // The charts below are about the main groups; twins are in the tables, emulated ones only where nothing else is.
  const real = () => { const some = data.details.filter((detail) => detail.kind === "main"); return some.length ? some : data.details; };
  const several = (details) => new Set(details.map((detail) => detail.group)).size > 1;
  const stepName = (detail, details) => (several(details) && detail.group ? `${detail.label} ${detail.group}` : detail.label);
  // One condition and two counts or more: areas against the count of tiles, else bars side by side.
  const ladder = (details) => {
    const counts = new Set(details.map((detail) => detail.count));
    return !several(details) && counts.size > 1 && counts.size === details.length ? [...details].sort((a, b) => a.count - b.count) : null;
  };
  const byTiles = (details) => values({
    min: details[0].count, max: details[details.length - 1].count, minInterval: 1, name: "tiles", nameLocation: "middle", nameGap: 26,
    splitLine: { show: false }, axisLine: { show: true, onZero: false, lineStyle: { color: colour("faint") } }, axisLabel: { ...textStyle("ink"), hideOverlap: true, showMaxLabel: true },
  });
  function areas(details) {
    const sums = details.map((detail) => detail.tiles.reduce((all, one) => [...all, all[all.length - 1] + one], [0]));
    const total = (step) => sums[step][sums[step].length - 1];
    const most = Math.max(...details.map((detail) => detail.tiles.length));
    // The band of a tile is without height where there are fewer tiles.
    const edge = (step, tile) => sums[step][Math.min(tile, sums[step].length - 1)];
    const first = details[0], last = details[details.length - 1], paper = data.published;
    const even = first.count === 1 ? Math.min(last.count, paper ? paper.tiles : last.count) : 0;
    const top = Math.max(...details.map((_, step) => total(step)), even * total(0));
    const evenName = paper ? `tiles \u00d7 one tile: what the 2009 paper published, to ${paper.tiles} tiles` : "tiles \u00d7 one tile";
    const evenStroke = { type: "line", animation: false, symbol: "none", silent: true, z: 4, lineStyle: { color: colour("ink"), width: 1.4, type: [6, 4] }, data: [[1, total(0)], [even, even * total(0)]] };
    legend("legend-bands", [
      { name: "each tile", draw: [box(colour(data.emulated ? "warn" : "accent"))] },
      ...(even > 1 ? [{ name: evenName, tip: paper ? paper.about : undefined, draw: [stroke(colour("ink"), "5 3")] }] : []),
    ]);
    return {
      animation: false, tooltip: tooltip((item) => item.data.hint || ""),
      grid: { outerBoundsMode: "none", left: 72, right: 14, top: 12, bottom: 42 },
      xAxis: byTiles(details),
      yAxis: values({ min: 0, max: nice(top * 1.02), name: first.unit, nameLocation: "middle", nameGap: 52, nameMoveOverlap: false, axisLabel: { formatter: brief } }),
      series: [
        {
          type: "custom", animation: false, silent: true, clip: true, z: 2, data: Array.from({ length: most }, (_, tile) => [first.count, 0, tile]),
          renderItem: (params, api) => {
            const tile = api.value(2), low = details.map((detail, step) => api.coord([detail.count, edge(step, tile)])), high = details.map((detail, step) => api.coord([detail.count, edge(step, tile + 1)]));
            return { type: "polygon", shape: { points: [...low, ...high.reverse()] }, style: { fill: colour(data.emulated ? "warn" : "accent"), opacity: tile % 2 ? 0.5 : 0.85, stroke: colour("paper"), lineWidth: most > 16 ? 0.3 : 0.8 } };
          },
        },
        ...(even > 1 ? [evenStroke] : []),
        {
          type: "line", animation: false, showAllSymbol: true, z: 5, symbolSize: details.length > 20 ? 4 : 6, lineStyle: { color: colour("ink"), width: 1 }, itemStyle: { color: colour("ink") },
          data: details.map((detail, step) => {
            const low = Math.min(...detail.tiles), high = Math.max(...detail.tiles), share = (value) => percent(value / (total(step) || 1));
            const named = (value) => `tile ${detail.tiles.indexOf(value) + 1}: ${three(value)} ${detail.unit}, ${share(value)} of the step`;
            return {
              value: [detail.count, total(step)], symbol: detail.struck ? crossed : signs[detail.outcome] || "circle",
              hint: lines([`${stepWords(detail.label)}: ${three(total(step))} ${detail.unit}` + (detail.struck ? ", not trusted" : ""), ...(detail.tiles.length > 1 ? [`least, ${named(low)}`, `most, ${named(high)}`, `even is ${percent(1 / detail.tiles.length)}`] : [])]),
            };
          }),
        },
      ],
    };
  }

  // --- Mean and p99 against tiles, with the gate -----------------------------------------------------------------
  function response() {
    const details = ladder(real().filter((detail) => detail.mean !== null));
    const { p99_ms: gate, mean_ms: ofMean } = data.gate;
    const scale = scaleOf([...details.flatMap((detail) => [detail.mean, detail.percentiles[2]]), gate, ...(ofMean ? [ofMean] : [])]);
    const one = (name, ink, of, dash) => ({
      type: "line", name, animation: false, showAllSymbol: true, connectNulls: true, symbolSize: details.length > 20 ? 5 : 7, lineStyle: { color: ink, width: 2, type: dash ? [6, 4] : "solid" }, itemStyle: { color: ink },
      data: details.filter((detail) => of(detail) > 0).map((detail) => ({
        value: [detail.count, scale.to(of(detail))], symbol: detail.struck ? crossed : signs[detail.outcome] || "circle", itemStyle: { color: outcomeInk(detail, ink) },
        hint: lines([stepWords(detail.label) + (detail.struck ? ", not trusted" : `, ${detail.outcome}`), `mean ${three(detail.mean)} ms, p99 ${three(detail.percentiles[2])} ms`]),
      })),
    });
    const limit = (ms, name, dash) => ({
      silent: true, symbol: "none", animation: false, lineStyle: { color: colour("bad"), width: 1.4, type: dash ? [6, 4] : "solid" }, data: [{ yAxis: scale.to(ms) }],
      label: { position: "insideStartTop", formatter: `${name} ${exact(ms)} ms`, color: colour("bad"), fontFamily: font, fontSize: 11.5, fontWeight: 600, distance: [2, 3] },
    });
    const p99 = one("p99", colour("accent"), (detail) => detail.percentiles[2]);
    const mean = one("mean", colour("line-a"), (detail) => detail.mean, true);
    p99.markLine = limit(gate, ofMean ? "gate, p99" : "gate");
    if (ofMean) mean.markLine = limit(ofMean, "gate, mean", true);
    legend("legend-response", [
      { name: "p99", draw: [stroke(colour("accent")), dot(colour("accent"))] }, { name: "mean", draw: [stroke(colour("line-a"), "5 3")] },
      ...(data.published ? [{ name: `the 2009 paper's mean: under ${exact(data.published.mean_ms)} ms`, tip: data.published.about, draw: [stroke("none")] }] : []),
    ]);
    return {
      animation: false, tooltip: tooltip((item) => item.data.hint || ""), grid: { outerBoundsMode: "none", left: 58, right: 14, top: 12, bottom: 42 },
      xAxis: byTiles(details), yAxis: values({ ...scale.axis, axisLabel: { ...(scale.axis.axisLabel || {}), formatter: (value) => brief(scale.from(value)) } }),
      series: [p99, mean],
    };
  }

  function bands() {
    const details = real().filter((detail) => detail.tiles.length > 0);
    const sorted = ladder(details);
    if (sorted && data.axis === "tiles") return areas(sorted);
    const bars = details.flatMap((detail, step) => {
      let below = 0;
      return detail.tiles.map((value, tile) => { const bar = [step, below, below + value, tile]; below += value; return bar; });
    });
    const slot = (widthOf("chart-bands") - 76) / Math.max(details.length, 1);
    const wide = Math.min(slot * 0.7, 60);
    return {
      animation: false, tooltip: tooltip((item) => {
        const detail = details[item.value[0]], value = item.value[2] - item.value[1], total = detail.tiles.reduce((sum, one) => sum + one, 0);
        return lines([`${stepWords(stepName(detail, details))}: tile ${item.value[3] + 1} of ${detail.tiles.length}`, `${three(value)} ${detail.unit}`, `${percent(value / total)} of the step; even is ${percent(1 / detail.tiles.length)}`]);
      }),
      grid: { outerBoundsMode: "none", left: 72, right: 14, top: 12, bottom: 42 },
      xAxis: category(details.map((detail) => stepName(detail, details)), { name: data.axis, nameLocation: "middle", nameGap: 26, axisLabel: { ...textStyle("ink"), hideOverlap: true, width: Math.max(slot - 4, 26), overflow: "truncate" } }),
      yAxis: values({ min: 0, name: details[0] ? details[0].unit : "", nameLocation: "middle", nameGap: 52, nameMoveOverlap: false, axisLabel: { formatter: brief } }),
      series: [{
        type: "custom", animation: false, data: bars, encode: { x: 0, y: [1, 2] },
        renderItem: (params, api) => {
          const low = api.coord([api.value(0), api.value(1)]), high = api.coord([api.value(0), api.value(2)]);
          const struck = details[api.value(0)].struck;
          return { type: "rect", shape: { x: low[0] - wide / 2, y: high[1], width: wide, height: low[1] - high[1] },
            style: { fill: colour(data.emulated ? "warn" : "accent"), opacity: (api.value(3) % 2 ? 0.62 : 0.9) * (struck ? 0.45 : 1), stroke: colour("paper"), lineWidth: low[1] - high[1] > 4 ? 1 : 0.2 } };
        },
      }],
    };
  }

  // --- Percentiles -------------------------------------------------------------------------------------------
  function percentiles() {
    const details = real().filter((detail) => detail.percentiles.some((value) => value !== null));
    const scale = scaleOf(details.flatMap((detail) => detail.percentiles), 5);
    // A line is named where its name does not run into another's.
    const named = new Set();
    const ends = details.map((detail) => scale.to([...detail.percentiles].reverse().find((value) => value !== null) || 1));
    const apart = scale.log ? (scale.axis.max - scale.axis.min) * 0.07 : (scale.axis.max || 1) * 0.07;
    for (let index = details.length - 1; index >= 0; index--) {
      if (![...named].some((other) => Math.abs(ends[other] - ends[index]) < apart)) named.add(index);
    }
    const strong = (index) => 0.35 + (0.65 * (index + 1)) / details.length;
    return {
      animation: false, tooltip: tooltip((item) => lines([stepWords(item.seriesName), `${item.name} ${three(scale.from(item.value))} ms`])),
      grid: { outerBoundsMode: "none", left: 52, right: 76, top: 12, bottom: 42 },
      xAxis: category(["p50", "p90", "p99", "p99.9", "max"], { boundaryGap: false, name: "of all requests of a step", nameLocation: "middle", nameGap: 26 }),
      yAxis: values({ ...scale.axis, axisLabel: { ...(scale.axis.axisLabel || {}), formatter: (value) => brief(scale.from(value)) } }),
      series: details.map((detail, index) => ({
        type: "line", animation: false, name: stepName(detail, details), symbol: signs[detail.outcome] || "circle", symbolSize: detail.outcome === "breaks" ? 8 : 5, connectNulls: true,
        lineStyle: { color: colour(detail.outcome === "breaks" ? "bad" : detail.kind === "twin" ? "twin" : "accent"), opacity: strong(index), width: 1.6, type: detail.kind === "twin" || detail.struck ? [6, 4] : "solid" },
        itemStyle: { color: colour(detail.outcome === "breaks" ? "bad" : detail.kind === "twin" ? "twin" : "accent"), opacity: strong(index) },
        endLabel: { show: named.has(index), formatter: () => stepName(detail, details), ...textStyle("soft", 11.5), width: 66, overflow: "truncate" },
        data: detail.percentiles.map((value) => (value === null || value <= 0 ? null : scale.to(value))),
      })),
    };
  }

  // --- Fairness ----------------------------------------------------------------------------------------------
  function fairness() {
    const details = real().filter((detail) => detail.guests.length > 1);
    const dots = details.flatMap((detail, row) => detail.guests.map((guest, index) => ({ value: [guest.of_mean * 100, row], name: guest.name, symbolOffset: [0, ((index * 7) % 9) - 4], struck: detail.struck })));
    const far = Math.max(2, ...dots.map((point) => Math.abs(point.value[0] - 100)));
    const reach = nice(far * 1.1);
    return {
      animation: false, tooltip: tooltip((item) => lines([item.name, `${three(item.value[0])} % of what guests got on average`])),
      grid: { outerBoundsMode: "none", left: Math.min(130, 20 + 7.5 * Math.max(...details.map((detail) => stepName(detail, details).length), 0)), right: 14, top: 8, bottom: 42 },
      xAxis: values({ min: Math.max(0, 100 - reach), max: 100 + reach, name: details.some((detail) => detail.by_demand) ? "answered share of demand over the mean, %" : "requests answered over the mean, %", nameLocation: "middle", nameGap: 26, axisLabel: { formatter: brief, hideOverlap: true, showMinLabel: false, showMaxLabel: false } }),
      yAxis: category(details.map((detail) => stepName(detail, details)), { inverse: true, axisLabel: { ...textStyle("ink"), hideOverlap: true, width: 120, overflow: "truncate" } }),
      series: [{ type: "scatter", animation: false, symbolSize: 6, data: dots.map((point) => ({ ...point, itemStyle: { color: colour("accent"), opacity: point.struck ? 0.25 : 0.55 } })),
        markLine: { silent: true, symbol: "none", animation: false, label: { show: false }, lineStyle: { color: colour("faint"), width: 1, type: "solid" }, data: [{ xAxis: 100 }] } }],
    };
  }

  // --- Memory ------------------------------------------------------------------------------------------------
  function memory(id, pick, unit) {
    return () => {
      const details = real().filter((detail) => pick(detail) !== null);
      const slot = (widthOf(id) - 70) / Math.max(details.length, 1);
      return {
        animation: false, tooltip: tooltip((item) => lines([stepWords(item.name), `${three(item.value)} ${unit}`])),
        grid: { outerBoundsMode: "none", left: 52, right: 14, top: 12, bottom: 42 },
        xAxis: category(details.map((detail) => stepName(detail, details)), { name: data.axis, nameLocation: "middle", nameGap: 26, axisLabel: { ...textStyle("ink"), hideOverlap: true, width: Math.max(slot - 4, 26), overflow: "truncate" } }),
        yAxis: values({ min: 0, splitNumber: 3, axisLabel: { formatter: brief } }),
        series: [{ type: "bar", animation: false, barWidth: Math.min(slot * 0.6, 44), data: details.map((detail) => ({ value: pick(detail), itemStyle: { color: colour("accent"), opacity: detail.struck ? 0.4 : detail.kind === "twin" ? 0.5 : 0.85, decal: detail.kind === "emulated" ? decal() : undefined } })) }],
      };
    };
  }

  // --- Draw, and draw again when width or light change ---------------------------------------------------------
  const charts = [
    ["chart-latency", latency], ["chart-processors", processors], ["chart-forest", forest], ["chart-timeline", timeline], ["chart-bands", bands], ["chart-response", response],
    ["chart-percentiles", percentiles], ["chart-fairness", fairness],
    ...(data.sections || []).map((chart) => [`chart-${chart.id}`, ofSection(chart)]),
    ["chart-pss", memory("chart-pss", (detail) => detail.pss_mib, "MiB")],
    ["chart-left", memory("chart-left", (detail) => (detail.memory_available_min === null ? null : detail.memory_available_min / 2 ** 30), "GiB")],
  ];
  const live = new Map();

  // By keyboard: arrows go from point to point, Home and End to the first and the last; each is shown as on hover, and read out.
  const spoken = byId("spoken");
  const walkers = new WeakMap();
  function walkable(place, chart) {
    if (walkers.has(place)) return;
    walkers.set(place, -1);
    place.tabIndex = 0;
    place.addEventListener("keydown", (event) => {
      const points = chart.getOption().series.flatMap((one, seriesIndex) => (one.silent ? [] : (one.data || []).map((item, dataIndex) => ({ seriesIndex, dataIndex, item }))))
        .filter(({ item }) => item !== null && item !== undefined && !(Array.isArray(item) && item[1] === null) && item.value !== null);
      if (points.length === 0) return;
      const now = walkers.get(place), last = points.length - 1;
      const next = { ArrowRight: Math.min(now + 1, last), ArrowLeft: Math.max(now - 1, 0), Home: 0, End: last }[event.key];
      if (event.key === "Escape") chart.dispatchAction({ type: "hideTip" });
      if (next === undefined) return;
      event.preventDefault();
      walkers.set(place, next);
      const { seriesIndex, dataIndex } = points[next];
      chart.dispatchAction({ type: "downplay" });
      chart.dispatchAction({ type: "highlight", seriesIndex, dataIndex });
      chart.dispatchAction({ type: "showTip", seriesIndex, dataIndex });
      const shown = [...place.querySelectorAll("div")].pop();
      spoken.textContent = shown ? shown.innerText.replaceAll("\n", ", ") : "";
    });
    place.addEventListener("blur", () => { chart.dispatchAction({ type: "hideTip" }); chart.dispatchAction({ type: "downplay" }); });
  }

  function draw() {
    for (const [id, option] of charts) {
      const place = byId(id);
      if (!place) continue;
      try {
        if (id === "chart-forest" && data.forest.length > 7) place.style.height = 60 + 38 * data.forest.length + "px";
        if (id === "chart-fairness") place.style.height = Math.max(120, 62 + 26 * real().filter((detail) => detail.guests.length > 1).length) + "px";
        if (!live.has(id)) live.set(id, echarts.init(place, null, { renderer: "svg" }));
        const chart = live.get(id);
        walkable(place, chart);
        chart.resize();
        chart.setOption(option(), true);
        // With a view box the drawing scales where paper is narrower than the screen was.
        const svg = place.querySelector("svg");
        if (svg) svg.setAttribute("viewBox", `0 0 ${chart.getWidth()} ${chart.getHeight()}`);
      } catch (error) {
        failed(`${id}: ${error.stack || error}`);
      }
    }
    root.dataset.charts = String(live.size);
    // Where the first screen ends, for the test that it fits.
    const first = document.querySelector(".charts");
    root.dataset.firstScreenEnds = String(Math.round(first.getBoundingClientRect().bottom + scrollY));
  }

  const pick = byId("pick-step");
  if (pick) {
    const all = steps();
    const broke = all.find((step) => step.detail && step.detail.outcome === "breaks" && step.detail.kind === "main");
    chosen = (broke || all.filter((step) => step.detail && step.detail.kind === "main").pop() || all[all.length - 1]).point;
    for (const step of all) {
      const option = document.createElement("option");
      option.value = String(step.point); option.textContent = step.name; option.selected = step.point === chosen;
      pick.append(option);
    }
    pick.addEventListener("change", () => { chosen = Number(pick.value); draw(); });
  }
  draw();
  // From the start of loading until every chart can be used, for the test that it is soon.
  root.dataset.interactiveMs = String(Math.round(performance.now()));

  let waiting = 0;
  const later = () => { clearTimeout(waiting); waiting = setTimeout(draw, 80); };
  addEventListener("resize", later);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  matchMedia("print").addEventListener("change", draw);
  addEventListener("beforeprint", draw);
  addEventListener("afterprint", draw);

  // --- Copy -------------------------------------------------------------------------------------------------
  async function copy(button, text) {
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text; area.setAttribute("readonly", ""); area.style.position = "fixed"; area.style.opacity = "0";
      document.body.append(area); area.select();
      done = document.execCommand("copy");
      area.remove();
    }
    const before = button.textContent;
    button.textContent = done ? "Copied" : "No copy";
    setTimeout(() => { button.textContent = before; }, 1600);
  }
  const copyButton = byId("copy");
  if (copyButton) copyButton.addEventListener("click", () => copy(copyButton, byId("answer").textContent));
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button, byId(button.dataset.copy).textContent));

  // --- Words: on hover and by keyboard, Escape takes them away ------------------------------------------------
  const tip = byId("tip");
  function show(target) {
    if (!target.dataset.tip) return;
    tip.textContent = target.dataset.tip; tip.hidden = false;
    const place = target.getBoundingClientRect(), size = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(place.left, innerWidth - size.width - 8));
    const under = place.bottom + 6, over = place.top - size.height - 6;
    tip.style.left = left + "px";
    tip.style.top = (under + size.height > innerHeight - 8 && over > 8 ? over : under) + "px";
  }
  const hide = () => { tip.hidden = true; };
  const wordOf = (event) => (event.target.closest ? event.target.closest("[data-tip]") : null);
  document.addEventListener("mouseover", (event) => { const word = wordOf(event); if (word) show(word); else hide(); });
  document.addEventListener("focusin", (event) => { const word = wordOf(event); if (word) show(word); else hide(); });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", hide, { passive: true });
})();
