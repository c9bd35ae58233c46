//! Metrics that observable instruments cannot express: histograms, and names without the prefix
//! `lockgate_`. They are separate collectors in the same registry.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use prometheus::core::{Collector, Desc};
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};
use prometheus::{Error, Registry};

use crate::histogram::Snapshot;
use crate::numbers::Numbers;

pub(crate) type ReadFamilies = fn(&Numbers) -> Vec<Family>;

struct Families {
    numbers: Weak<Numbers>,
    /// The registry identifies collectors by their descriptions.
    description: Desc,
    read: ReadFamilies,
}

pub(crate) struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    metrics: Vec<Metric>,
}

/// Registers families that are read from `numbers`; `name` is any of their names.
pub(crate) fn register(
    registry: &Registry,
    numbers: &Arc<Numbers>,
    name: &str,
    read: ReadFamilies,
) -> Result<(), Error> {
    let description = Desc::new(name.to_owned(), name.to_owned(), Vec::new(), HashMap::new())?;
    registry.register(Box::new(Families { numbers: Arc::downgrade(numbers), description, read }))
}

impl Collector for Families {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.description]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(numbers) = self.numbers.upgrade() else { return Vec::new() };
        let mut families = Vec::new();
        for family in (self.read)(&numbers) {
            // The encoder rejects families without values.
            if !family.metrics.is_empty() {
                families.push(family.into_proto());
            }
        }
        families
    }
}

impl Family {
    pub(crate) fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: MetricType::COUNTER, metrics: Vec::new() }
    }

    pub(crate) fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: MetricType::GAUGE, metrics: Vec::new() }
    }

    pub(crate) fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: MetricType::HISTOGRAM, metrics: Vec::new() }
    }

    /// Adds a value of a counter or gauge, and returns the family.
    pub(crate) fn with(mut self, labels: &[(&'static str, &str)], value: f64) -> Self {
        self.add(labels, value);
        self
    }

    /// Adds a value of a counter or gauge.
    pub(crate) fn add(&mut self, labels: &[(&'static str, &str)], value: f64) {
        let mut metric = new_metric(labels.iter().copied());
        if self.kind == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.metrics.push(metric);
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
        self.metrics.push(metric);
    }

    fn into_proto(self) -> MetricFamily {
        let mut family = MetricFamily::default();
        family.set_name(self.name.to_owned());
        family.set_help(self.help.to_owned());
        family.set_field_type(self.kind);
        family.set_metric(self.metrics);
        family
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
    // Sorted like the labels of other metrics.
    pairs.sort_by(|one, other| one.name().cmp(other.name()));
    Metric::from_label(pairs)
}
