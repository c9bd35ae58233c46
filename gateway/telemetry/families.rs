//! Families of metrics, as Prometheus reads them.

use prometheus::TextEncoder;
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

use crate::histogram::Snapshot;

pub(crate) struct Family(MetricFamily);

/// Renders the families that have values, in the order of their names.
pub(crate) fn render(families: impl IntoIterator<Item = Family>) -> String {
    let mut all = Vec::new();
    for Family(family) in families {
        // The encoder rejects families without values.
        if !family.get_metric().is_empty() {
            all.push(family);
        }
    }
    all.sort_by(|one, other| one.name().cmp(other.name()));
    match TextEncoder::new().encode_to_string(&all) {
        Ok(text) => text,
        Err(error) => format!("# metrics are not available: {error}\n"),
    }
}

impl Family {
    pub(crate) fn counter(name: &str, help: &str) -> Self {
        Self::new(name, help, MetricType::COUNTER)
    }

    pub(crate) fn gauge(name: &str, help: &str) -> Self {
        Self::new(name, help, MetricType::GAUGE)
    }

    pub(crate) fn histogram(name: &str, help: &str) -> Self {
        Self::new(name, help, MetricType::HISTOGRAM)
    }

    fn new(name: &str, help: &str, kind: MetricType) -> Self {
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        Self(family)
    }

    /// Adds a value of a counter or gauge, and returns the family.
    pub(crate) fn with<'a>(
        mut self,
        labels: impl IntoIterator<Item = (&'static str, &'a str)>,
        value: f64,
    ) -> Self {
        self.add(labels, value);
        self
    }

    /// Adds a value of a counter or gauge.
    pub(crate) fn add<'a>(
        &mut self,
        labels: impl IntoIterator<Item = (&'static str, &'a str)>,
        value: f64,
    ) {
        let mut metric = new_metric(labels);
        if self.0.get_field_type() == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.0.mut_metric().push(metric);
    }

    pub(crate) fn add_histogram<'a>(
        &mut self,
        labels: impl IntoIterator<Item = (&'static str, &'a str)>,
        snapshot: Snapshot,
    ) {
        let mut histogram = Histogram::default();
        histogram.set_sample_count(snapshot.count);
        histogram.set_sample_sum(snapshot.sum);
        let mut buckets = Vec::with_capacity(snapshot.buckets.len());
        for (bound, count) in snapshot.buckets {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(bound);
            bucket.set_cumulative_count(count);
            buckets.push(bucket);
        }
        histogram.set_bucket(buckets);
        let mut metric = new_metric(labels);
        metric.set_histogram(histogram);
        self.0.mut_metric().push(metric);
    }
}

fn new_metric<'a>(labels: impl IntoIterator<Item = (&'static str, &'a str)>) -> Metric {
    let mut pairs = Vec::new();
    for (name, value) in labels {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value.to_owned());
        pairs.push(pair);
    }
    pairs.sort_by(|one, other| one.name().cmp(other.name()));
    Metric::from_label(pairs)
}
