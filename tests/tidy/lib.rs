//! Checks of the repository's own rules: imports between layers, the style of source files, and
//! working documentation. Each rule is a function of a path and a text, tested on a planted
//! violation and then applied to every tracked file.

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod floors;
#[cfg(test)]
mod layers;
#[cfg(test)]
#[cfg(test)]
mod prose;
#[cfg(test)]
mod shape;
#[cfg(test)]
mod style;
#[cfg(test)]
mod tree;
#[cfg(test)]
mod words;
