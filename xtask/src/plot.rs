//! Writes plots as SVG by hand: readable on light and dark pages, with no external resources.

#![cfg_attr(not(feature = "simulate"), allow(dead_code, reason = "the simulations draw most plots"))]

use std::fmt::Write;

/// Text and lines take the colour of the page's theme; the colours of the series are visible on both themes.
const STYLE: &str = "<style>text{font:13px system-ui,sans-serif;fill:#1f2328}.h{font-weight:600}.s{font-size:11px}.g{stroke:#8b949e;\
                     stroke-opacity:.35}@media(prefers-color-scheme:dark){text{fill:#e6edf3}}</style>\n";
const COLOURS: [&str; 6] = ["#8b949e", "#2f81f7", "#e36209", "#bf8700", "#cf222e", "#8250df"];
const LABELS: f64 = 300.0;
const PANEL: f64 = 300.0;
const GAP: f64 = 60.0;
const ROW: f64 = 22.0;
const TOP: f64 = 52.0;

/// One dot per row and panel, on logarithmic axes.
pub struct Dots {
    /// Title of each panel.
    pub panels: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Named>,
}

fn open(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>{}</title>\n{STYLE}",
        escaped(title)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn text(out: &mut String, at: (f64, f64), anchor: &str, class: &str, what: &str) {
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{}</text>",
        at.0,
        at.1,
        escaped(what)
    );
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(out, "<path class=\"g\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>", from.0, from.1, to.0, to.1);
}

/// A row of a plot: name, value in each panel, and whether it stands out.
pub type Named = (String, Vec<f64>, bool);

/// Left edge of a panel.
fn left_of(panel: usize) -> f64 {
    LABELS + panel as f64 * (PANEL + GAP)
}

/// Opens a plot with this number of panels and labels its rows; returns the SVG and the bottom of the rows.
fn labelled(title: &str, panels: usize, rows: &[Named]) -> (String, f64) {
    let bottom = TOP + ROW * rows.len() as f64;
    let mut out = open(left_of(panels), bottom + 34.0, title);
    for (row, (name, _, stands_out)) in rows.iter().enumerate() {
        let y = TOP + ROW * (row as f64 + 0.5);
        text(&mut out, (LABELS - 12.0, y + 4.0), "end", if *stands_out { "h" } else { "" }, name);
    }
    (out, bottom)
}

impl Dots {
    /// The plot.
    pub fn svg(&self, title: &str) -> String {
        let (mut out, bottom) = labelled(title, self.panels.len(), &self.rows);
        for (panel, what) in self.panels.iter().enumerate() {
            let left = left_of(panel);
            text(&mut out, (left, 24.0), "start", "h", what);
            let values = || self.rows.iter().map(|row| row.1[panel].max(0.5));
            let most = values().fold(10.0, f64::max).log10().ceil();
            let least = values().fold(1.0, f64::min).log10().min(0.0) - 0.05;
            let x = |value: f64| left + (value.log10() - least) / (most - least) * PANEL;
            for power in 0..=most as i32 {
                let value = 10f64.powi(power);
                line(&mut out, (x(value), TOP - 6.0), (x(value), bottom));
                text(&mut out, (x(value), bottom + 18.0), "middle", "s", &format!("{value}"));
            }
            for (row, (_, _, stands_out)) in self.rows.iter().enumerate() {
                let value = self.rows[row].1[panel].max(0.5);
                let (y, colour) = (TOP + ROW * (row as f64 + 0.5), COLOURS[1 + usize::from(!stands_out)]);
                line(&mut out, (x(1.0), y), (x(value), y));
                let _ = writeln!(out, "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"/>", x(value));
            }
        }
        out + "</svg>\n"
    }
}

/// One bar per row and panel, from zero, with a line at 1.
pub struct Bars {
    /// Title of each panel.
    pub panels: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Named>,
}

impl Bars {
    /// The plot.
    pub fn svg(&self, title: &str) -> String {
        let (mut out, bottom) = labelled(title, self.panels.len(), &self.rows);
        for (panel, what) in self.panels.iter().enumerate() {
            let left = left_of(panel);
            text(&mut out, (left, 24.0), "start", "h", what);
            // Room for the number after the longest bar.
            let most = self.rows.iter().map(|row| row.1[panel]).fold(1.0, f64::max) * 1.15;
            let x = |value: f64| left + value / most * PANEL;
            for (row, (_, values, stands_out)) in self.rows.iter().enumerate() {
                let (y, colour) = (TOP + ROW * (row as f64 + 0.5), COLOURS[usize::from(*stands_out)]);
                let wide = x(values[panel]) - left;
                let _ = writeln!(
                    out,
                    "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"14\" fill=\"{colour}\"/>",
                    y - 7.0
                );
                text(&mut out, (left + wide + 5.0, y + 4.0), "start", "s", &format!("{:.2}", values[panel]));
            }
            line(&mut out, (x(1.0), TOP - 6.0), (x(1.0), bottom));
            text(&mut out, (x(1.0), bottom + 18.0), "middle", "s", "1");
        }
        out + "</svg>\n"
    }
}

/// A mean and its margin of error, at each step.
pub type Series = Vec<(f64, f64)>;

/// Lines with their intervals, over steps that count from 1.
pub struct Lines {
    /// Name of each line, the same in all panels.
    pub names: Vec<String>,
    /// Title of each panel, and its lines.
    pub panels: Vec<(String, Vec<Series>)>,
    /// Label of the horizontal axis.
    pub steps: &'static str,
}

impl Lines {
    /// The plot; values are shares, shown as percent.
    pub fn svg(&self, title: &str) -> String {
        const HEIGHT: f64 = 260.0;
        let left_edge = 56.0;
        let bottom = TOP + HEIGHT;
        let width = left_edge + (PANEL + GAP + 20.0) * self.panels.len() as f64;
        let height = bottom + 50.0 + 20.0 * self.names.len() as f64;
        let mut out = open(width, height, title);
        let steps = self.panels.iter().flat_map(|panel| panel.1.iter().map(Vec::len)).max().unwrap_or(0);
        for (panel, (what, lines)) in self.panels.iter().enumerate() {
            let left = left_edge + panel as f64 * (PANEL + GAP + 20.0);
            text(&mut out, (left, 24.0), "start", "h", what);
            // Each panel starts at its own lowest value: the lines of one panel may all lie near the top of another.
            let lowest = lines.iter().flatten().map(|(mean, off)| mean - off).fold(1.0, f64::min);
            let least = ((lowest * 10.0).floor() / 10.0).clamp(0.0, 0.9);
            let x = |step: usize| left + step as f64 / (steps.max(2) - 1) as f64 * PANEL;
            let y = |value: f64| bottom - (value - least) / (1.0 - least) * HEIGHT;
            for tick in 0..=5 {
                let value = least + (1.0 - least) * f64::from(tick) / 5.0;
                line(&mut out, (left, y(value)), (left + PANEL, y(value)));
                text(&mut out, (left - 8.0, y(value) + 4.0), "end", "s", &format!("{:.0} %", value * 100.0));
            }
            for step in (0..steps).step_by(2) {
                text(&mut out, (x(step), bottom + 18.0), "middle", "s", &(step + 1).to_string());
            }
            text(&mut out, (left + PANEL / 2.0, bottom + 36.0), "middle", "s", self.steps);
            for (number, line) in lines.iter().enumerate() {
                let colour = series_colour(number);
                let point = |(step, value): (usize, f64)| format!("{:.1} {:.1}", x(step), y(value));
                let upper = line.iter().enumerate().map(|(step, (mean, off))| point((step, mean + off)));
                let lower = line.iter().enumerate().rev().map(|(step, (mean, off))| point((step, mean - off)));
                let band: Vec<_> = upper.chain(lower).collect();
                let means: Vec<_> = line.iter().enumerate().map(|(step, (mean, _))| point((step, *mean))).collect();
                let _ = writeln!(out, "<path fill=\"{colour}\" fill-opacity=\".18\" d=\"M{}Z\"/>", band.join("L"));
                let _ = writeln!(
                    out,
                    "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" d=\"M{}\"/>",
                    means.join("L")
                );
            }
        }
        legend(&mut out, &self.names, left_edge, bottom);
        out + "</svg>\n"
    }
}

/// Points over numbers that count from 1, on a logarithmic axis.
pub struct Points {
    /// Name of each series, the same in all panels.
    pub names: Vec<String>,
    /// Title of each panel, and the values of its series.
    pub panels: Vec<(String, Vec<Vec<f64>>)>,
    /// Label of the horizontal axis.
    pub steps: &'static str,
    /// Ticks of the axis, with their labels; values beyond the ends are drawn at the ends.
    pub ticks: Vec<(f64, &'static str)>,
}

impl Points {
    /// The plot.
    pub fn svg(&self, title: &str) -> String {
        const HEIGHT: f64 = 260.0;
        const WIDE: f64 = 400.0;
        let (left_edge, bottom) = (64.0, TOP + HEIGHT);
        let width = left_edge + (WIDE + 80.0) * self.panels.len() as f64;
        let mut out = open(width, bottom + 50.0 + 20.0 * self.names.len() as f64, title);
        let ends = self.ticks.iter().map(|tick| tick.0.log10());
        let (least, most) =
            ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| (low.min(end), high.max(end)));
        let y = |value: f64| bottom - (value.log10().clamp(least, most) - least) / (most - least) * HEIGHT;
        for (panel, (what, series)) in self.panels.iter().enumerate() {
            let left = left_edge + panel as f64 * (WIDE + 80.0);
            text(&mut out, (left, 24.0), "start", "h", what);
            for (tick, label) in &self.ticks {
                line(&mut out, (left, y(*tick)), (left + WIDE, y(*tick)));
                text(&mut out, (left - 8.0, y(*tick) + 4.0), "end", "s", label);
            }
            let count = series.iter().map(Vec::len).max().unwrap_or(0);
            let x = |number: usize| left + number as f64 / (count.max(2) - 1) as f64 * WIDE;
            for (at, anchor) in [(0, "start"), (count.div_ceil(2).max(1) - 1, "middle"), (count.max(1) - 1, "end")] {
                text(&mut out, (x(at), bottom + 18.0), anchor, "s", &(at + 1).to_string());
            }
            text(&mut out, (left + WIDE / 2.0, bottom + 36.0), "middle", "s", self.steps);
            for (number, values) in series.iter().enumerate() {
                // A dot is a zero-length line with a round cap.
                let dots = values.iter().enumerate().map(|(at, value)| format!("M{:.0} {:.0}h0", x(at), y(*value)));
                let (colour, dots) = (series_colour(number), dots.collect::<String>());
                let _ = writeln!(
                    out,
                    "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"3\" stroke-linecap=\"round\" d=\"{dots}\"/>"
                );
            }
        }
        legend(&mut out, &self.names, left_edge, bottom);
        out + "</svg>\n"
    }
}

/// One bar per row, in percent.
pub struct Percents {
    /// Name, percent, and whether it stands out.
    pub rows: Vec<(String, f64, bool)>,
}

impl Percents {
    /// The plot.
    pub fn svg(&self, title: &str) -> String {
        const WIDE: f64 = 480.0;
        const HIGH: f64 = 34.0;
        // Room for names in a wide font.
        const NAMES: f64 = 260.0;
        let mut out = open(NAMES + WIDE + 72.0, 48.0 + HIGH * self.rows.len() as f64 + 8.0, title);
        text(&mut out, (12.0, 26.0), "start", "h", title);
        for (row, (name, percent, stands_out)) in self.rows.iter().enumerate() {
            let (top, colour) = (48.0 + HIGH * row as f64, series_colour(usize::from(*stands_out)));
            let (class, width) = (if *stands_out { "h" } else { "" }, percent / 100.0 * WIDE);
            text(&mut out, (NAMES - 12.0, top + 17.0), "end", class, name);
            let _ = writeln!(
                out,
                "<rect x=\"{NAMES}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"24\" rx=\"3\" fill=\"{colour}\"/>"
            );
            text(&mut out, (NAMES + width + 8.0, top + 17.0), "start", class, &format!("{percent:.0} %"));
        }
        out + "</svg>\n"
    }
}

/// Lines over two logarithmic axes.
pub struct Curves {
    /// Names of the lines, the same in all panels; lines beyond the names are dashed and repeat the colours.
    pub names: Vec<String>,
    /// Meaning of the dashed lines; empty if there are no dashed lines.
    pub dashed: &'static str,
    /// Title of each panel, and the points of each line, ascending.
    pub panels: Vec<(String, Vec<Vec<(f64, f64)>>)>,
    /// Label of the horizontal axis.
    pub across: &'static str,
    /// Label of the vertical axis.
    pub up: &'static str,
}

impl Curves {
    /// The plot; points that are not above zero are left out.
    pub fn svg(&self, title: &str) -> String {
        const HEIGHT: f64 = 260.0;
        const WIDE: f64 = 400.0;
        let (left_edge, bottom) = (64.0, TOP + HEIGHT);
        let width = left_edge + (WIDE + 80.0) * self.panels.len() as f64;
        let below = bottom + 50.0 + 20.0 * self.names.len() as f64;
        let mut out = open(width, below + 20.0, title);
        let points = || self.panels.iter().flat_map(|panel| panel.1.iter().flatten());
        let is_there = |point: &&(f64, f64)| point.0 > 0.0 && point.1 > 0.0 && point.1.is_finite();
        let ends = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |ends, value| (ends.0.min(value), ends.1.max(value)))
        };
        let (from, to) = ends(&mut points().filter(is_there).map(|point| point.0.log10()));
        let (least, most) = ends(&mut points().filter(is_there).map(|point| point.1.log10()));
        let (least, most) = (least.floor(), most.ceil().max(least.floor() + 1.0));
        let y = |value: f64| bottom - (value.log10() - least) / (most - least) * HEIGHT;
        for (panel, (what, lines)) in self.panels.iter().enumerate() {
            let left = left_edge + panel as f64 * (WIDE + 80.0);
            let x = |value: f64| left + (value.log10() - from) / (to - from).max(1e-9) * WIDE;
            text(&mut out, (left, 24.0), "start", "h", what);
            for power in least as i32..=most as i32 {
                let value = 10f64.powi(power);
                line(&mut out, (left, y(value)), (left + WIDE, y(value)));
                text(&mut out, (left - 8.0, y(value) + 4.0), "end", "s", &format!("{value}"));
            }
            text(&mut out, (left - 8.0, TOP - 10.0), "end", "s", self.up);
            // Machine counts are powers of two; every second count (a factor of four) has a label.
            let ticks = lines.first().into_iter().flatten().filter(is_there).step_by(2);
            for tick in ticks {
                text(&mut out, (x(tick.0), bottom + 18.0), "middle", "s", &format!("{}", tick.0));
            }
            text(&mut out, (left + WIDE / 2.0, bottom + 36.0), "middle", "s", self.across);
            for (number, line) in lines.iter().enumerate() {
                let points = line.iter().filter(is_there);
                let points: Vec<_> = points.map(|point| format!("{:.1} {:.1}", x(point.0), y(point.1))).collect();
                let dashes = if number < self.names.len() { "" } else { " stroke-dasharray=\"5 4\"" };
                let colour = series_colour(number % self.names.len().max(1));
                let _ = writeln!(
                    out,
                    "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes} d=\"M{}\"/>",
                    points.join("L")
                );
            }
        }
        legend(&mut out, &self.names, left_edge, bottom);
        text(&mut out, (left_edge + 14.0, below + 4.0), "start", "", self.dashed);
        out + "</svg>\n"
    }
}

fn series_colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

/// Names of series with their colours, below a plot.
fn legend(out: &mut String, names: &[String], left: f64, bottom: f64) {
    for (number, name) in names.iter().enumerate() {
        let (y, colour) = (bottom + 56.0 + 20.0 * number as f64, series_colour(number));
        let _ = writeln!(out, "<circle cx=\"{left}\" cy=\"{:.1}\" r=\"5\" fill=\"{colour}\"/>", y - 4.0);
        text(out, (left + 14.0, y), "start", "", name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_hold_what_they_are_given_and_close_what_they_open() {
        let dots = Dots { panels: vec!["R"], rows: vec![("a < b".to_owned(), vec![1000.0], true)] }.svg("t");
        let bars = Percents { rows: vec![("a".to_owned(), 7.0, true), ("b".to_owned(), 91.0, false)] }.svg("t");
        assert!(bars.contains("7 %") && bars.contains("91 %"), "{bars}");
        let series = vec![(0.5, 0.1), (0.9, 0.0)];
        let lines = Lines { names: vec!["x".to_owned()], panels: vec![("p".to_owned(), vec![series])], steps: "epoch" };
        let bars = Bars { panels: vec!["b"], rows: vec![("x".to_owned(), vec![0.4], false)] }.svg("t");
        let (names, panels) = (vec!["x".to_owned()], vec![("p".to_owned(), vec![vec![0.0, 1e9]])]);
        let points = Points { names, panels, steps: "batch", ticks: vec![(1.0, "1 ms"), (1000.0, "1 s")] };
        let (names, panels) =
            (vec!["x".to_owned()], vec![("p".to_owned(), vec![vec![(1.0, 0.2), (8.0, 0.0), (64.0, 30.0)]])]);
        let curves = Curves { names, dashed: "", panels, across: "machines", up: "hours" };
        for svg in [dots, bars, lines.svg("t"), points.svg("t"), curves.svg("t")] {
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        }
    }
}
