use std::collections::HashMap;
use std::rc::Rc;

use super::scalar::ScalarType;

/// What a pickle builds: values that refer to each other by their numbers, of which the last is the whole.
#[derive(Debug)]
pub(super) struct Pickle {
    values: Vec<PickleValue>,
    top: usize,
}

/// One value. Whatever does not belong to a state dict is [`Other`](Self::Other).
#[derive(Clone, Debug)]
pub(super) enum PickleValue {
    Other,
    Int(usize),
    Text(Rc<str>),
    Tuple(Vec<usize>),
    Dict(Vec<(usize, usize)>),
    Global(Global),
    Storage(Rc<Storage>),
    Tensor(StorageView),
}

/// What a pickle may name. Anything else is refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum Global {
    OrderedDict,
    Tensor,
    Parameter,
    Storage(ScalarType),
}

/// A row of numbers, which is an entry of the archive.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    pub key: Rc<str>,
    pub scalar: ScalarType,
    /// In numbers.
    pub len: usize,
}

/// A tensor: a view of a storage. Offset and strides count numbers.
#[derive(Clone, Debug)]
pub(super) struct StorageView {
    pub storage: Rc<Storage>,
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

/// The most axes of a tensor, as in PyTorch.
const AXES_LIMIT: usize = 64;

const BROKEN: &str = "its pickle is broken";

impl Global {
    fn named(module: &str, name: &str) -> Result<Self, String> {
        Ok(match (module, name) {
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2") => Self::Tensor,
            ("torch._utils", "_rebuild_parameter") => Self::Parameter,
            ("torch" | "torch.storage", _) if name.ends_with("Storage") => Self::Storage(match name {
                "DoubleStorage" => ScalarType::F64,
                "FloatStorage" => ScalarType::F32,
                "HalfStorage" => ScalarType::F16,
                "BFloat16Storage" => ScalarType::BF16,
                "LongStorage" => ScalarType::I64,
                "IntStorage" => ScalarType::I32,
                "ShortStorage" => ScalarType::I16,
                "CharStorage" => ScalarType::I8,
                "ByteStorage" => ScalarType::U8,
                "BoolStorage" => ScalarType::Bool,
                _ => return Err(format!("tensors of {module}.{name} cannot be read; save them as float32")),
            }),
            _ => {
                return Err(format!(
                    "holds a {module}.{name}, and only dicts of tensors, numbers and texts are read; \
                     save model.state_dict() alone"
                ));
            }
        })
    }
}

impl Pickle {
    /// Follows a pickle to its end.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut machine = PickleMachine { rest: bytes, ..PickleMachine::default() };
        while machine.step()? {}
        let top = machine.pop()?;
        Ok(Self { values: machine.values, top })
    }

    pub(super) fn top(&self) -> &PickleValue {
        self.value(self.top)
    }

    pub(super) fn value(&self, number: usize) -> &PickleValue {
        &self.values[number]
    }
}

/// Reads a pickle. Values refer to each other by number, so the memory is proportional to the length of the pickle,
/// however nested it is.
#[derive(Debug, Default)]
struct PickleMachine<'a> {
    rest: &'a [u8],
    values: Vec<PickleValue>,
    stack: Vec<usize>,
    /// The height of the stack at every mark.
    marks: Vec<usize>,
    memo: HashMap<u64, usize>,
}

impl<'a> PickleMachine<'a> {
    /// Does one instruction; false if it was the last.
    fn step(&mut self) -> Result<bool, String> {
        match self.take(1)?[0] {
            b'.' => return Ok(false),
            0x80 => self.check_version()?,
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'q' => self.memorize(1)?,
            b'r' => self.memorize(4)?,
            b'h' => self.recall(1)?,
            b'j' => self.recall(4)?,
            b'b' => self.build()?,
            b'R' => self.reduce()?,
            b'Q' => self.load_storage()?,
            b's' => self.set_items(self.stack.len().wrapping_sub(2))?,
            b'u' => {
                let mark = self.pop_mark()?;
                self.set_items(mark)?;
            }
            // Lists hold nothing of a state dict, only the options of optimisers.
            b'a' => drop(self.pop()?),
            b'e' => {
                let mark = self.pop_mark()?;
                self.stack.truncate(mark);
            }
            other => {
                let value = self.literal(other)?;
                self.push(value);
            }
        }
        Ok(true)
    }

    /// The value of an instruction that makes one from its own bytes or from the stack.
    fn literal(&mut self, instruction: u8) -> Result<PickleValue, String> {
        Ok(match instruction {
            b'N' | b']' | 0x88 | 0x89 => PickleValue::Other,
            b'}' => PickleValue::Dict(Vec::new()),
            b')' => PickleValue::Tuple(Vec::new()),
            b't' => {
                let mark = self.pop_mark()?;
                PickleValue::Tuple(self.stack.split_off(mark))
            }
            0x85..=0x87 => PickleValue::Tuple(self.pop_many(usize::from(instruction - 0x84))?),
            b'K' => self.int(1, false)?,
            b'M' => self.int(2, false)?,
            b'J' => self.int(4, true)?,
            0x8A => {
                let len = self.number(1)? as usize;
                self.int(len, true)?
            }
            b'G' => {
                self.take(8)?;
                PickleValue::Other
            }
            b'X' | b'T' => self.text(4)?,
            b'U' => self.text(1)?,
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                PickleValue::Global(Global::named(module, name)?)
            }
            other => return Err(format!("{BROKEN}: PyTorch writes no instruction {other:#04x}")),
        })
    }

    fn check_version(&mut self) -> Result<(), String> {
        match self.take(1)?[0] {
            2 => Ok(()),
            other => Err(format!(
                "is a pickle of protocol {other}; save it with protocol 2, as torch.save does unasked"
            )),
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(BROKEN)?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self, len: usize) -> Result<u64, String> {
        Ok(self.take(len)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A whole number of `len` bytes. One that is below zero or very large cannot be a length.
    fn int(&mut self, len: usize, is_signed: bool) -> Result<PickleValue, String> {
        let bytes = self.take(len)?;
        let is_negative = is_signed && bytes.last().is_some_and(|byte| *byte >= 0x80);
        let number = bytes.iter().rev().try_fold(0usize, |number, byte| {
            number.checked_mul(256).map(|number| number + usize::from(*byte))
        });
        Ok(number.filter(|_| !is_negative).map_or(PickleValue::Other, PickleValue::Int))
    }

    fn text(&mut self, len_bytes: usize) -> Result<PickleValue, String> {
        let len = self.number(len_bytes)? as usize;
        let text = str::from_utf8(self.take(len)?).map_err(|_| BROKEN)?;
        Ok(PickleValue::Text(text.into()))
    }

    fn line(&mut self) -> Result<&'a str, String> {
        let len = self.rest.iter().position(|byte| *byte == b'\n').ok_or(BROKEN)?;
        let line = self.take(len + 1)?;
        Ok(str::from_utf8(&line[..len]).map_err(|_| BROKEN)?)
    }

    fn push(&mut self, value: PickleValue) {
        self.values.push(value);
        self.stack.push(self.values.len() - 1);
    }

    /// The least height of the stack until the last mark is used.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<usize, String> {
        let (floor, number) = (self.floor(), self.stack.pop());
        Ok(number.filter(|_| self.stack.len() >= floor).ok_or(BROKEN)?)
    }

    fn pop_many(&mut self, count: usize) -> Result<Vec<usize>, String> {
        let start =
            self.stack.len().checked_sub(count).filter(|start| *start >= self.floor()).ok_or(BROKEN)?;
        Ok(self.stack.split_off(start))
    }

    fn pop_mark(&mut self) -> Result<usize, String> {
        Ok(self.marks.pop().ok_or(BROKEN)?)
    }

    /// The value on top of the stack.
    fn last(&self) -> Result<usize, String> {
        Ok(self.stack.last().copied().ok_or(BROKEN)?)
    }

    fn memorize(&mut self, key_bytes: usize) -> Result<(), String> {
        let key = self.number(key_bytes)?;
        let number = self.last()?;
        self.memo.insert(key, number);
        Ok(())
    }

    fn recall(&mut self, key_bytes: usize) -> Result<(), String> {
        let key = self.number(key_bytes)?;
        self.stack.push(*self.memo.get(&key).ok_or(BROKEN)?);
        Ok(())
    }

    /// Attributes of a dict, which say nothing of its tensors.
    fn build(&mut self) -> Result<(), String> {
        self.pop()?;
        let target = self.last()?;
        if matches!(self.values[target], PickleValue::Dict(_)) { Ok(()) } else { Err(BROKEN.to_owned()) }
    }

    /// Puts the pairs of the stack, from a height on, into the dict below.
    fn set_items(&mut self, height: usize) -> Result<(), String> {
        if height < self.floor() || height > self.stack.len() {
            return Err(BROKEN.to_owned());
        }
        let items = self.stack.split_off(height);
        let target = self.last()?;
        let (pairs, []) = items.as_chunks() else { return Err(BROKEN.to_owned()) };
        let PickleValue::Dict(dict) = &mut self.values[target] else { return Err(BROKEN.to_owned()) };
        dict.extend(pairs.iter().map(|[key, value]| (*key, *value)));
        Ok(())
    }

    /// What a call of one of the known names would return.
    fn reduce(&mut self) -> Result<(), String> {
        let (arguments, callee) = (self.pop()?, self.pop()?);
        let (PickleValue::Tuple(arguments), PickleValue::Global(global)) =
            (&self.values[arguments], &self.values[callee])
        else {
            return Err(BROKEN.to_owned());
        };
        let value = match (global, &arguments[..]) {
            (Global::OrderedDict, []) => PickleValue::Dict(Vec::new()),
            (Global::Parameter, &[tensor, ..]) => {
                self.stack.push(tensor);
                return Ok(());
            }
            (Global::Tensor, &[storage, offset, shape, strides, ..]) => {
                PickleValue::Tensor(self.view(storage, [offset, shape, strides]).ok_or(BROKEN)?)
            }
            _ => return Err(BROKEN.to_owned()),
        };
        self.push(value);
        Ok(())
    }

    fn view(&self, storage: usize, [offset, shape, strides]: [usize; 3]) -> Option<StorageView> {
        let int = |number: &usize| match self.values[*number] {
            PickleValue::Int(int) => Some(int),
            _ => None,
        };
        let ints = |number: usize| match &self.values[number] {
            PickleValue::Tuple(numbers) if numbers.len() <= AXES_LIMIT => numbers.iter().map(int).collect(),
            _ => None,
        };
        let PickleValue::Storage(storage) = &self.values[storage] else { return None };
        let (offset, shape, strides) = (int(&offset)?, ints(shape)?, ints(strides)?);
        Some(StorageView { storage: Rc::clone(storage), offset, shape, strides })
    }

    /// A storage is named by a tuple: the word, the type, the entry, the device, how many numbers.
    fn load_storage(&mut self) -> Result<(), String> {
        let number = self.pop()?;
        let PickleValue::Tuple(parts) = &self.values[number] else { return Err(BROKEN.to_owned()) };
        let &[word, kind, key, _, len] = &parts[..] else { return Err(BROKEN.to_owned()) };
        let [word, kind, key, len] = [word, kind, key, len].map(|part| &self.values[part]);
        let storage = match (word, kind, key, len) {
            (
                PickleValue::Text(word),
                PickleValue::Global(Global::Storage(scalar)),
                PickleValue::Text(key),
                PickleValue::Int(len),
            ) if **word == *"storage" => Rc::new(Storage { key: Rc::clone(key), scalar: *scalar, len: *len }),
            _ => return Err(BROKEN.to_owned()),
        };
        self.push(PickleValue::Storage(storage));
        Ok(())
    }
}
