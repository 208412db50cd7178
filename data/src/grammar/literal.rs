//! Calls and literals written as text: `PyAutoGUI` code, and the actions that models reply with.
//!
//! Nothing is evaluated: whatever is not a call with literals, or a literal, is a fault.

use std::collections::BTreeMap;

/// Lists nest no deeper than this; an action nests two.
const MAX_DEPTH: usize = 8;
/// Longest text, in bytes, that code may give a name to: each use of the name is a copy.
const MAX_NAMED_TEXT: usize = 1000;

/// What may stand for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Python literals: a bare word is a fault.
    Python,
    /// What models write: typographic quotes, JSON's `true` and `null`, a bare word as text.
    Lenient,
}

/// A literal value.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// A finite number.
    Number(f64),
    /// A string, its escapes resolved.
    Text(String),
    /// `True` or `False`.
    Bool(bool),
    /// `None`.
    None,
    /// A list or tuple.
    List(Vec<Literal>),
    /// A dictionary with text keys, in its order.
    Map(Vec<(String, Literal)>),
}

/// Text that is not what it should be, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}, found {found}")]
pub struct LiteralError {
    /// What was expected.
    pub what: &'static str,
    /// Byte of the text.
    pub at: usize,
    /// What stands there.
    pub found: String,
}

/// An argument, with its name where it is passed by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// `x` of `x=0.5`.
    pub name: Option<String>,
    /// What is passed.
    pub value: Literal,
}

/// A call: `pyautogui.click(x=0.5, y=0.5)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The dotted name before the bracket.
    pub name: String,
    /// In the order written.
    pub arguments: Vec<Argument>,
}

impl Call {
    /// The argument passed by `name`, else the one at `index` among those without a name.
    pub fn argument(&self, index: usize, name: &str) -> Option<&Literal> {
        let named = self.arguments.iter().find(|a| a.name.as_deref() == Some(name));
        let mut positional = self.arguments.iter().filter(|a| a.name.is_none());
        named.or_else(|| positional.nth(index)).map(|a| &a.value).filter(|v| **v != Literal::None)
    }
}

/// The calls of a piece of Python code, separated by line ends or `;`. Imports, comments and strings that stand
/// alone are skipped. A name that a line gives to a number, a short text or a point (`tag_1 = (35, 25)`) stands
/// for it in the calls after that line.
///
/// # Errors
/// Where the code stops being a call.
pub fn python_calls(code: &str) -> Result<Vec<Call>, LiteralError> {
    let mut parser = Parser::new(code, Dialect::Python);
    let mut calls = Vec::new();
    loop {
        parser.skip(|c| c.is_whitespace() || c == ';');
        if parser.rest().is_empty() {
            return Ok(calls);
        }
        if parser.rest().starts_with(['"', '\'']) {
            parser.string(false)?;
            parser.statement_end()?;
            continue;
        }
        let name = parser.name()?;
        if name == "import" || name == "from" {
            parser.take_while(|c| c != '\n');
            continue;
        }
        parser.take_while(|c| c == ' ');
        if parser.eat('=') {
            let value = parser.named_value()?;
            parser.names.insert(name.to_owned(), value);
        } else {
            calls.push(Call { name: name.to_owned(), arguments: parser.arguments()? });
        }
        parser.statement_end()?;
    }
}

/// The call that `text` begins with, and the text after it; a name without brackets is a call without
/// arguments.
///
/// # Errors
/// Where the text stops being a call.
pub fn leading_call(text: &str) -> Result<(Call, &str), LiteralError> {
    let mut parser = Parser::new(text, Dialect::Lenient);
    let name = parser.name()?.to_owned();
    parser.space();
    let arguments = if parser.rest().starts_with('(') { parser.arguments()? } else { Vec::new() };
    Ok((Call { name, arguments }, parser.rest()))
}

/// The list, tuple or dictionary that `text` begins with, and the text after it.
///
/// # Errors
/// Where the text stops being one.
pub fn leading_value(text: &str) -> Result<(Literal, &str), LiteralError> {
    let mut parser = Parser::new(text, Dialect::Lenient);
    let value = parser.literal(0)?;
    Ok((value, parser.rest()))
}

/// Whether a number is written as Rust would write it, so that nothing is lost by reading it.
fn is_canonical(digits: &str) -> bool {
    let unsigned = digits.strip_prefix('-').unwrap_or(digits);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "1"));
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    unsigned.len() <= 15
        && plain(whole)
        && plain(fraction)
        && (whole == "0" || !whole.starts_with('0'))
        && !fraction.ends_with('0')
}

struct Parser<'a> {
    code: &'a str,
    at: usize,
    dialect: Dialect,
    names: BTreeMap<String, Literal>,
}

impl<'a> Parser<'a> {
    fn new(code: &'a str, dialect: Dialect) -> Self {
        Self { code, at: 0, dialect, names: BTreeMap::new() }
    }

    fn rest(&self) -> &'a str {
        &self.code[self.at..]
    }

    fn fault(&self, what: &'static str) -> LiteralError {
        let found = self.rest().chars().take(12).collect::<String>();
        let found = if found.is_empty() { "the end".to_owned() } else { format!("`{found}`") };
        LiteralError { what, at: self.at, found }
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

    fn name(&mut self) -> Result<&'a str, LiteralError> {
        let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
        if !self.rest().starts_with(starts) {
            return Err(self.fault("expected a call such as `click(…)`"));
        }
        Ok(self.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.'))
    }

    /// The value that a line gives a name to. It may hold no name itself: names of lists of names grow without
    /// limit.
    fn named_value(&mut self) -> Result<Literal, LiteralError> {
        self.take_while(|c| c == ' ');
        let names = std::mem::take(&mut self.names);
        let value = self.literal(0);
        self.names = names;
        match value? {
            Literal::List(list)
                if list.len() > 4 || !list.iter().all(|v| matches!(v, Literal::Number(_))) =>
            {
                Err(self.fault("only a number, a short text or a point may have a name, before"))
            }
            Literal::Text(text) if text.len() > MAX_NAMED_TEXT => {
                Err(self.fault("only a text of up to 1000 bytes may have a name, before"))
            }
            Literal::Map(_) => {
                Err(self.fault("only a number, a short text or a point may have a name, before"))
            }
            value => Ok(value),
        }
    }

    /// A line end, `;` or the end of the code.
    fn statement_end(&mut self) -> Result<(), LiteralError> {
        self.skip(|c| c == ' ' || c == '\t' || c == '\r');
        if self.rest().is_empty() || self.rest().starts_with(['\n', ';']) {
            return Ok(());
        }
        Err(self.fault("expected a line end or `;` after the call"))
    }

    fn arguments(&mut self) -> Result<Vec<Argument>, LiteralError> {
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
                return Some(name.to_owned());
            }
        }
        self.at = start;
        None
    }

    fn literal(&mut self, depth: usize) -> Result<Literal, LiteralError> {
        let lenient = self.dialect == Dialect::Lenient;
        match self.rest().chars().next() {
            Some('"' | '\'') => self.string(false),
            Some('‘' | '“' | '’' | '”') if lenient => self.typographic_string(),
            Some('[') => self.list('[', ']', depth),
            Some('(') => self.list('(', ')', depth),
            Some('{') => self.map(depth),
            Some(c) if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => self.number(),
            Some(_) => self.word(),
            None => Err(self.fault("expected a value")),
        }
    }

    /// A list; one that holds `key: value` pairs, as the paper's prompt writes an action, is a dictionary.
    fn list(&mut self, open: char, close: char, depth: usize) -> Result<Literal, LiteralError> {
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
            let value = self.literal(depth + 1)?;
            self.space();
            if self.dialect == Dialect::Lenient && values.is_empty() && self.rest().starts_with(':') {
                return self.pairs(value, close, depth);
            }
            values.push(value);
            if !self.eat(',') && !self.rest().starts_with(close) {
                return Err(self.fault("expected `,` or the list's end"));
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Literal, LiteralError> {
        if depth == MAX_DEPTH {
            return Err(self.fault("dictionaries nested too deep"));
        }
        self.eat('{');
        self.space();
        if self.eat('}') {
            return Ok(Literal::Map(Vec::new()));
        }
        let key = self.literal(depth + 1)?;
        self.space();
        self.pairs(key, '}', depth)
    }

    /// The pairs of a dictionary, whose first key has been read, to its end.
    fn pairs(&mut self, first: Literal, close: char, depth: usize) -> Result<Literal, LiteralError> {
        let mut pairs = Vec::new();
        let mut key = first;
        loop {
            let Literal::Text(name) = key else { return Err(self.fault("expected a text key before")) };
            if !self.eat(':') {
                return Err(self.fault("expected `:`"));
            }
            self.space();
            pairs.push((name, self.literal(depth + 1)?));
            self.space();
            let more = self.eat(',');
            self.space();
            if self.eat(close) {
                return Ok(Literal::Map(pairs));
            }
            if !more {
                return Err(self.fault("expected `,` or the dictionary's end"));
            }
            key = self.literal(depth + 1)?;
            self.space();
        }
    }

    fn number(&mut self) -> Result<Literal, LiteralError> {
        let start = self.at;
        let digits = self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.' | '_'));
        let plain =
            if digits.contains('_') { digits.replace('_', "").parse() } else { digits.parse::<f64>() };
        let value = plain.ok().filter(|v| v.is_finite());
        // `007` is a code, `2.50` a price: what may be meant as text keeps its form.
        if self.dialect == Dialect::Lenient && value.is_some() && !is_canonical(digits) {
            return Ok(Literal::Text(digits.to_owned()));
        }
        value.map(Literal::Number).ok_or_else(|| {
            self.at = start;
            self.fault("expected a number")
        })
    }

    fn word(&mut self) -> Result<Literal, LiteralError> {
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
        if let Some(value) = self.names.get(word).filter(|_| !quoted) {
            return Ok(value.clone());
        }
        if self.dialect == Dialect::Lenient && !word.is_empty() {
            return Ok(match word {
                "true" => Literal::Bool(true),
                "false" => Literal::Bool(false),
                "null" => Literal::None,
                word => Literal::Text(word.to_owned()),
            });
        }
        self.at = start;
        Err(self.fault("expected a literal value"))
    }

    /// A string in `‘…’` or `“…”`, without escapes.
    fn typographic_string(&mut self) -> Result<Literal, LiteralError> {
        let single = self.rest().starts_with(['‘', '’']);
        let quotes = if single { ['‘', '’'] } else { ['“', '”'] };
        let body = &self.rest()[quotes[0].len_utf8()..];
        let Some(len) = body.find(quotes) else {
            return Err(self.fault("a string is opened and never closed"));
        };
        self.at += 2 * quotes[0].len_utf8() + len;
        Ok(Literal::Text(body[..len].to_owned()))
    }

    fn string(&mut self, raw: bool) -> Result<Literal, LiteralError> {
        let start = self.at;
        let quote = if self.rest().starts_with('"') { '"' } else { '\'' };
        let triple = if quote == '"' { "\"\"\"" } else { "'''" };
        let close = if self.rest().starts_with(triple) { triple } else { &triple[..1] };
        self.at += close.len();
        let mut text = String::new();
        loop {
            text.push_str(self.take_while(|c| c != quote && c != '\\'));
            if self.rest().starts_with(close) && self.closes(close) {
                self.at += close.len();
                return Ok(Literal::Text(text));
            }
            match self.rest().chars().next() {
                Some('\\') => {
                    self.at += 1;
                    self.after_backslash(raw, &mut text)?;
                }
                // A lone quote inside a triple-quoted string, or an apostrophe.
                Some(_) => {
                    self.at += 1;
                    text.push(quote);
                }
                None => {
                    self.at = start;
                    return Err(self.fault("a string is opened and never closed"));
                }
            }
        }
    }

    /// Whether a quote ends its string. Models write apostrophes without a backslash: theirs does not, unless
    /// what follows could follow a value.
    fn closes(&self, close: &str) -> bool {
        let after = self.rest()[close.len()..].trim_start();
        self.dialect == Dialect::Python || after.is_empty() || after.starts_with([',', ')', ']', '}', ':'])
    }

    fn after_backslash(&mut self, raw: bool, text: &mut String) -> Result<(), LiteralError> {
        if !raw {
            return self.escape(text);
        }
        text.push('\\');
        // A quote behind a backslash does not close a raw string either.
        let next = self.rest().chars().next();
        text.extend(next);
        self.at += next.map_or(0, char::len_utf8);
        Ok(())
    }

    /// The escape after a backslash, as Python reads it: an unknown one keeps its backslash.
    fn escape(&mut self, text: &mut String) -> Result<(), LiteralError> {
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
            'u' => text.push(self.utf16_unit()?),
            'U' => text.push(self.code_point(8)?),
            other => text.extend(['\\', other]),
        }
        Ok(())
    }

    /// A character written as one or two units of UTF-16, as JSON writes emoji; half of a pair, which a reply
    /// that is cut off may end in, is U+FFFD.
    fn utf16_unit(&mut self) -> Result<char, LiteralError> {
        let unit = |rest: &str| rest.get(..4).and_then(|hex| u16::from_str_radix(hex, 16).ok());
        let Some(first) = unit(self.rest()) else { return Err(self.fault("expected a code point")) };
        self.at += 4;
        let second = self.rest().strip_prefix("\\u").and_then(unit);
        let mut pair = char::decode_utf16([Some(first), second].into_iter().flatten());
        let found = pair.next().and_then(Result::ok);
        if found.is_some_and(|c| c.len_utf16() == 2) {
            self.at += 6;
        }
        Ok(found.unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn code_point(&mut self, digits: usize) -> Result<char, LiteralError> {
        let value = self.rest().get(..digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let c = value.and_then(char::from_u32).ok_or_else(|| self.fault("expected a code point"))?;
        self.at += digits;
        Ok(c)
    }
}
