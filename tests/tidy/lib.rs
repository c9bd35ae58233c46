//! Holds the repository to its own rules: who may import whom, how files look, and that what people
//! copy works. Each rule is a plain function over a path and a text, tried on a planted offender
//! and then on every tracked file.

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod floors;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod shape;
#[cfg(test)]
mod style;
#[cfg(test)]
mod tree;
#[cfg(test)]
mod words;
