//! The `command` rule: is this text, or this argument vector, one call of a program that the rule
//! knows, with options that the rule knows? There is no shell in it: what a shell would act on is
//! refused, not expanded. It starts nothing and looks at no file; whoever runs the command must
//! confine it all the same.

mod builtin;
mod git;
mod judge;
mod model;
mod paths;
mod spec;
mod tokens;

use std::collections::BTreeMap;

pub use spec::{Form, ModelSpec, Spec, Style};

use crate::Refusal;
use model::Model;
use serde_json::Value;

/// A compiled `command` rule.
#[derive(Debug)]
pub struct Command {
    form: Form,
    programs: BTreeMap<String, Program>,
    roots: Vec<String>,
    max_bytes: usize,
    max_arguments: usize,
}

#[derive(Debug)]
struct Program {
    model: Model,
    runs_code: bool,
}

/// A call that the rule allows, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// As the rule names it: a name, or a path where the rule names a path.
    pub program: String,
    pub arguments: Vec<String>,
    /// The first words of the call that chose a model, such as `log` for `git`.
    pub subcommands: Vec<String>,
    /// Operands and values of options that may name files, as they were written.
    pub paths: Vec<String>,
    /// The program was allowed to run code: nothing is known of what it will do.
    pub runs_code: bool,
}

impl Command {
    /// Compiles a rule.
    ///
    /// # Errors
    /// What is wrong with it, in words for its author.
    pub fn compile(spec: &Spec) -> Result<Self, String> {
        spec.bounds()?;
        let mut programs = BTreeMap::new();
        for name in &spec.programs {
            let opted_in = spec.allow_code_execution.contains(name);
            let short = spec::short_name(name);
            let own = spec.models.get(name).or_else(|| spec.models.get(short));
            let model = match (own, builtin::model(short)) {
                _ if opted_in => Model::anything(short),
                (Some(own), _) => Model::compile(short, own)?,
                (None, Some(model)) => Model::compile(short, &model)?,
                (None, None) => {
                    return Err(format!(
                        "`{name}` is not a program that is known here: say under `models` how it \
                            may be called"
                    ));
                }
            };
            programs.insert(name.clone(), Program { model, runs_code: opted_in });
        }
        let mut roots = Vec::with_capacity(spec.roots.len());
        for root in &spec.roots {
            roots.push(paths::root(root)?);
        }
        let form = spec.form;
        let max_bytes = spec.max_bytes;
        let max_arguments = spec.max_arguments;
        Ok(Self { form, programs, roots, max_bytes, max_arguments })
    }

    /// Judges an argument as a policy finds it: text, or a list of words where the rule asks for
    /// one.
    ///
    /// # Errors
    /// It has another form, or why it is refused.
    pub(crate) fn check_value(&self, value: &Value) -> Result<Invocation, Refusal> {
        match (value, self.form) {
            (Value::String(text), Form::Text | Form::Either) => self.check(text),
            (Value::Array(items), Form::Argv | Form::Either) => {
                let mut argv = Vec::with_capacity(items.len());
                for item in items {
                    let Some(word) = item.as_str() else {
                        return Err(Refusal("must be a list of text".into()));
                    };
                    argv.push(word.to_owned());
                }
                self.check_argv(&argv, None)
            }
            (_, Form::Text) => {
                Err(Refusal("must be text: one program with its arguments, on one line".into()))
            }
            (_, Form::Argv) => {
                Err(Refusal("must be a list: the program, then each of its arguments".into()))
            }
            (_, Form::Either) => Err(Refusal("must be text, or a list of text".into())),
        }
    }

    /// Judges a command line. Only blanks, quotes and backslashes have a meaning in it.
    ///
    /// # Errors
    /// Why it is refused, and what to send instead.
    pub fn check(&self, text: &str) -> Result<Invocation, Refusal> {
        self.judge(self.words(text)?, None)
    }

    /// The words of a command line, without judging them.
    ///
    /// # Errors
    /// A shell would do something with the line, or it is too long.
    pub fn words(&self, text: &str) -> Result<Vec<String>, Refusal> {
        self.size(text.len())?;
        tokens::split(text)
    }

    /// Judges an argument vector, the program first. `folder` is the absolute path that relative
    /// paths start at, if that is known; without it they must not go up. With it the caller has to
    /// check where the paths lead: `..` behind a name, which may be a link, passes.
    ///
    /// # Errors
    /// Why it is refused, and what to send instead.
    pub fn check_argv(&self, argv: &[String], folder: Option<&str>) -> Result<Invocation, Refusal> {
        let mut bytes = 0;
        for word in argv {
            bytes += word.len() + 1;
        }
        self.size(bytes)?;
        argv.iter().try_for_each(|word| tokens::printable(word))?;
        self.judge(argv.to_vec(), folder)
    }

    /// The names of the programs that may be run, as the rule has them.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.programs.keys().map(String::as_str)
    }

    /// Where a path that a call names would lie: an absolute path inside a root, or why there is
    /// none.
    ///
    /// # Errors
    /// The path is outside of the roots.
    pub fn locate(&self, path: &str, folder: Option<&str>) -> Result<String, Refusal> {
        paths::locate(path, folder, &self.roots)
    }

    fn size(&self, bytes: usize) -> Result<(), Refusal> {
        if bytes > self.max_bytes {
            return Err(Refusal(format!(
                "the command has {bytes} bytes; at most {} are allowed",
                self.max_bytes
            )));
        }
        Ok(())
    }

    fn judge(&self, mut argv: Vec<String>, folder: Option<&str>) -> Result<Invocation, Refusal> {
        if argv.is_empty() || argv[0].is_empty() {
            return Err(Refusal("the command is empty; begin with the name of a program".into()));
        }
        let arguments = argv.split_off(1);
        let name = argv.swap_remove(0);
        if arguments.len() > self.max_arguments {
            let found = arguments.len();
            let most = self.max_arguments;
            return Err(Refusal(format!(
                "the command has {found} arguments; at most {most} are allowed"
            )));
        }
        let Some(program) = self.programs.get(&name) else { return Err(self.unknown(&name)) };
        let (paths, subcommands) = judge::arguments(&program.model, &arguments)?;
        for path in &paths {
            paths::locate(path, folder, &self.roots)?;
        }
        Ok(Invocation {
            program: name,
            arguments,
            subcommands,
            paths,
            runs_code: program.runs_code,
        })
    }

    fn unknown(&self, name: &str) -> Refusal {
        let names = Vec::from_iter(self.programs()).join(", ");
        let shown = tokens::quoted(name);
        Refusal(if name.contains('/') {
            format!("{shown} is a path, not the name of a program; allowed are: {names}")
        } else if name.contains('=') {
            format!(
                "{shown} looks like a variable; the command must begin with the name of a program: \
                    {names}"
            )
        } else {
            format!("the program {shown} is not allowed; allowed are: {names}")
        })
    }
}

#[cfg(test)]
mod tests;
