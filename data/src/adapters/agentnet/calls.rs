//! `PyAutoGUI` code as calls with literal arguments. Nothing is evaluated: whatever is not a call
//! with literals is a fault.

use crate::adapters::source::Fault;
use crate::trace::RejectKind;

/// Lists nest no deeper than this; the code of a trajectory nests one.
const MAX_DEPTH: usize = 8;

/// A literal argument.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Number(f64),
    Text(String),
    Bool(bool),
    None,
    List(Vec<Literal>),
}

/// An argument, with its name where it is passed by name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Argument {
    pub(super) name: Option<String>,
    pub(super) value: Literal,
}

/// A call: `pyautogui.click(x=0.5, y=0.5)`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Vec<Argument>,
}

impl Call {
    /// The argument passed by `name`, else the one at `index` among those without a name.
    pub(super) fn argument(&self, index: usize, name: &str) -> Option<&Literal> {
        let named = self.arguments.iter().find(|a| a.name.as_deref() == Some(name));
        let mut positional = self.arguments.iter().filter(|a| a.name.is_none());
        named.or_else(|| positional.nth(index)).map(|a| &a.value).filter(|v| **v != Literal::None)
    }
}

/// The calls of a piece of code, separated by line ends or `;`. Imports and comments are skipped.
///
/// # Errors
/// [`RejectKind::Malformed`] with the byte at which the code stops being a call.
pub(super) fn parse(code: &str) -> Result<Vec<Call>, Fault> {
    let mut parser = Parser { code, at: 0 };
    let mut calls = Vec::new();
    loop {
        parser.skip(|c| c.is_whitespace() || c == ';');
        if parser.rest().is_empty() {
            return Ok(calls);
        }
        let name = parser.name()?;
        if name == "import" || name == "from" {
            parser.take_while(|c| c != '\n');
            continue;
        }
        let arguments = parser.arguments()?;
        calls.push(Call { name, arguments });
        parser.skip(|c| c == ' ' || c == '\t' || c == '\r');
        if !(parser.rest().is_empty() || parser.rest().starts_with(['\n', ';'])) {
            return Err(parser.fault("expected a line end or `;` after the call"));
        }
    }
}

struct Parser<'a> {
    code: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.code[self.at..]
    }

    fn fault(&self, what: &str) -> Fault {
        let found = self.rest().chars().take(12).collect::<String>();
        let found = if found.is_empty() { "the end".to_owned() } else { format!("`{found}`") };
        let reason = format!("code: {what} at byte {}, found {found}", self.at);
        Fault::new(RejectKind::Malformed, reason)
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Skips what `blank` accepts, and comments.
    fn skip(&mut self, blank: impl Fn(char) -> bool) {
        self.take_while(&blank);
        while self.rest().starts_with('#') {
            self.take_while(|c| c != '\n');
            self.take_while(&blank);
        }
    }

    fn space(&mut self) {
        self.skip(char::is_whitespace);
    }

    fn eat(&mut self, token: char) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len_utf8() } else { 0 };
        found
    }

    fn name(&mut self) -> Result<String, Fault> {
        let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
        if !self.rest().starts_with(starts) {
            return Err(self.fault("expected a call such as `pyautogui.click(…)`"));
        }
        Ok(self.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.').to_owned())
    }

    fn arguments(&mut self) -> Result<Vec<Argument>, Fault> {
        if !self.eat('(') {
            return Err(self.fault("expected `(`"));
        }
        let mut arguments = Vec::new();
        loop {
            self.space();
            if self.eat(')') {
                return Ok(arguments);
            }
            arguments.push(Argument { name: self.argument_name(), value: self.literal(0)? });
            self.space();
            if !self.eat(',') && !self.rest().starts_with(')') {
                return Err(self.fault("expected `,` or `)`"));
            }
        }
    }

    /// Eats `name =`, if it stands next.
    fn argument_name(&mut self) -> Option<String> {
        let start = self.at;
        if let Ok(name) = self.name() {
            self.space();
            if self.eat('=') {
                self.space();
                return Some(name);
            }
        }
        self.at = start;
        None
    }

    fn literal(&mut self, depth: usize) -> Result<Literal, Fault> {
        match self.rest().chars().next() {
            Some('"' | '\'') => self.string(false),
            Some('[') => self.list('[', ']', depth),
            Some('(') => self.list('(', ')', depth),
            Some(c) if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => self.number(),
            Some(_) => self.word(),
            None => Err(self.fault("expected a value")),
        }
    }

    fn list(&mut self, open: char, close: char, depth: usize) -> Result<Literal, Fault> {
        if depth == MAX_DEPTH {
            return Err(self.fault("lists nested too deep"));
        }
        self.eat(open);
        let mut values = Vec::new();
        loop {
            self.space();
            if self.eat(close) {
                return Ok(Literal::List(values));
            }
            values.push(self.literal(depth + 1)?);
            self.space();
            if !self.eat(',') && !self.rest().starts_with(close) {
                return Err(self.fault("expected `,` or the list's end"));
            }
        }
    }

    fn number(&mut self) -> Result<Literal, Fault> {
        let start = self.at;
        let digits = self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.' | '_'));
        let value = digits.replace('_', "").parse::<f64>().ok().filter(|v| v.is_finite());
        value.map(Literal::Number).ok_or_else(|| {
            self.at = start;
            self.fault("expected a number")
        })
    }

    fn word(&mut self) -> Result<Literal, Fault> {
        let start = self.at;
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let quoted = self.rest().starts_with(['"', '\'']);
        match word {
            "r" | "R" if quoted => return self.string(true),
            "u" | "U" if quoted => return self.string(false),
            "True" => return Ok(Literal::Bool(true)),
            "False" => return Ok(Literal::Bool(false)),
            "None" => return Ok(Literal::None),
            _ => {}
        }
        self.at = start;
        Err(self.fault("expected a literal value"))
    }

    fn string(&mut self, raw: bool) -> Result<Literal, Fault> {
        let start = self.at;
        let quote = if self.rest().starts_with('"') { '"' } else { '\'' };
        let triple: String = [quote; 3].iter().collect();
        let close = if self.rest().starts_with(&triple) { triple } else { quote.to_string() };
        self.at += close.len();
        let mut text = String::new();
        while !self.rest().starts_with(&close) {
            let Some(c) = self.rest().chars().next() else {
                self.at = start;
                return Err(self.fault("a string is opened and never closed"));
            };
            self.at += c.len_utf8();
            match c {
                '\\' if raw => {
                    text.push(c);
                    // A quote behind a backslash does not close a raw string either.
                    let next = self.rest().chars().next();
                    text.extend(next);
                    self.at += next.map_or(0, char::len_utf8);
                }
                '\\' => self.escape(&mut text)?,
                c => text.push(c),
            }
        }
        self.at += close.len();
        Ok(Literal::Text(text))
    }

    /// The escape after a backslash, as Python reads it: an unknown one keeps its backslash.
    fn escape(&mut self, text: &mut String) -> Result<(), Fault> {
        let Some(c) = self.rest().chars().next() else { return Ok(()) };
        self.at += c.len_utf8();
        match c {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            '0' => text.push('\0'),
            '\\' | '\'' | '"' => text.push(c),
            '\n' => {}
            'x' => text.push(self.code_point(2)?),
            'u' => text.push(self.code_point(4)?),
            'U' => text.push(self.code_point(8)?),
            other => text.extend(['\\', other]),
        }
        Ok(())
    }

    fn code_point(&mut self, digits: usize) -> Result<char, Fault> {
        let value = self.rest().get(..digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let c = value.and_then(char::from_u32).ok_or_else(|| self.fault("expected a code point"))?;
        self.at += digits;
        Ok(c)
    }
}
