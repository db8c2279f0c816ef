"use strict";
(async () => {
  const charts = [...document.querySelectorAll("[data-figure]")];
  const tell = (text) => charts.forEach((box) => {
    box.classList.add("message");
    box.textContent = text;
  });
  if (typeof DecompressionStream === "undefined") {
    tell("This browser is too old to unpack the charts (2023 or newer is needed). The tables below hold the figures.");
    return;
  }
  const packed = Uint8Array.from(atob(document.getElementById("library").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const code = document.createElement("script");
  code.textContent = await new Response(stream).text();
  document.head.append(code);

  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const coloured = (value) => {
    if (typeof value === "string") return /^@[a-z0-9]+$/.test(value) ? colour(value.slice(1)) : value;
    if (Array.isArray(value)) return value.map(coloured);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, coloured(inner)]));
    }
    return value;
  };
  const axis = (own) => ({
    gridcolor: colour("line"), linecolor: colour("line"), zerolinecolor: colour("line"),
    automargin: true, nticks: 7, ...own,
  });
  const draw = () => {
    for (const box of charts) {
      const figure = coloured(figures[box.dataset.figure]);
      const layout = {
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        font: { color: colour("soft"), size: 12, family: getComputedStyle(document.body).fontFamily },
        modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: colour("ink") },
        margin: { l: 56, r: 12, t: 8, b: 44 }, showlegend: false, dragmode: "zoom",
        legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" },
        hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } },
        ...figure.layout, xaxis: axis(figure.layout.xaxis), yaxis: axis(figure.layout.yaxis),
      };
      Plotly.react(box, figure.data, layout, {
        responsive: true, displaylogo: false, displayModeBar: true,
        modeBarButtonsToRemove: ["lasso2d", "select2d"],
        toImageButtonOptions: { filename: document.title.replace(/[^\w.-]+/g, "_") + "_" + box.dataset.figure },
      });
    }
    document.body.dataset.drawn = charts.length;
  };
  draw();
  dark.addEventListener("change", draw);
})();
