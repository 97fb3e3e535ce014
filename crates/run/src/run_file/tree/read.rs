use std::marker::PhantomData;
use std::slice;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::node::{Data, Entry, Meaning, Node, Place, below};
use super::wrong::Wrong;

/// Hands a value of the tree to serde, and adds its place to whatever serde finds wrong with it.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    origin: &'a str,
    node: &'a Node,
    path: &'a str,
}

impl<'a> Reader<'a> {
    pub fn new(origin: &'a str, root: &'a Node) -> Self {
        Self { origin, node: root, path: "" }
    }

    pub fn read<T: DeserializeOwned>(self) -> Result<T, Wrong> {
        self.seed(PhantomData)
    }

    /// Every value is read through here, so the innermost value at fault is the one named.
    fn seed<'de, S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Wrong> {
        seed.deserialize(self).map_err(|wrong| wrong.at(self.origin, &self.node.place, self.path))
    }

    /// Reads a key of this mapping, or the name of a choice. If it is wrong, that is said of the key, not of
    /// its value.
    fn seed_name<'de, S: DeserializeSeed<'de>>(
        self,
        seed: S,
        name: &str,
        place: &Place,
    ) -> Result<S::Value, Wrong> {
        let name: StrDeserializer<'_, Wrong> = name.into_deserializer();
        seed.deserialize(name).map_err(|wrong| wrong.at(self.origin, place, self.path))
    }

    fn visit_list<'de, V: Visitor<'de>>(self, nodes: &'a [Node], visitor: V) -> Result<V::Value, Wrong> {
        let mut items = Items { list: self, left: nodes.iter(), count: nodes.len() };
        let value = visitor.visit_seq(&mut items)?;
        if items.left.len() > 0 {
            let taken = nodes.len() - items.left.len();
            return Err(Wrong::new(format!("expected a list of {taken} values, found {}", nodes.len())));
        }
        Ok(value)
    }

    fn visit_entries<'de, V: Visitor<'de>>(
        self,
        entries: &'a [Entry],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_map(Entries { map: self, left: entries.iter(), value: None })
    }

    /// A mapping. An empty value will do, because all its keys may have been left to their defaults.
    fn visit_mapping<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match &self.node.data {
            Data::Scalar(_) if self.node.is_null() => self.visit_entries(&[], visitor),
            // Serde would also take a list of the fields in their order, which nobody could read.
            Data::List(_) => Err(Wrong::invalid_type(Unexpected::Seq, &visitor)),
            Data::Scalar(_) | Data::Map(_) => self.deserialize_any(visitor),
        }
    }

    fn choice(self, known: &[&str]) -> Result<Choice<'a>, Wrong> {
        let found = match &self.node.data {
            Data::Scalar(_) if self.node.is_null() => "nothing".to_owned(),
            Data::Scalar(scalar) => {
                return Ok(Choice {
                    parent: self,
                    name: &scalar.text,
                    place: &self.node.place,
                    content: None,
                });
            }
            Data::Map(entries) => match entries.as_slice() {
                [Entry { key, place, value }] => {
                    return Ok(Choice { parent: self, name: key, place, content: Some(value) });
                }
                [] => "an empty mapping".to_owned(),
                [first, second, ..] => format!(
                    "the keys `{}` and `{}` side by side; options of a choice are indented below it",
                    first.key, second.key
                ),
            },
            Data::List(_) => "a list".to_owned(),
        };
        Err(Wrong::new(format!("expected one of {}, found {found}", known.join(", "))))
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match &self.node.data {
            Data::List(items) => self.visit_list(items, visitor),
            Data::Map(entries) => self.visit_entries(entries, visitor),
            Data::Scalar(scalar) => match scalar.meaning() {
                Meaning::Null => visitor.visit_unit(),
                Meaning::Bool(value) => visitor.visit_bool(value),
                Meaning::Unsigned(value) => visitor.visit_u64(value),
                Meaning::Signed(value) => visitor.visit_i64(value),
                Meaning::Float(value) => visitor.visit_f64(value),
                Meaning::Text(value) => visitor.visit_str(value),
            },
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        // Serde would round what is too large to infinity without a word.
        match &self.node.data {
            Data::Scalar(scalar) => match scalar.meaning() {
                Meaning::Float(value) if value.is_finite() && value.abs() > f64::from(f32::MAX) => Err(
                    Wrong::new(format!("expected a number of at most {:e}, found {}", f32::MAX, scalar.text)),
                ),
                _ => self.deserialize_any(visitor),
            },
            Data::List(_) | Data::Map(_) => self.deserialize_any(visitor),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match &self.node.data {
            // Where text is wanted, `name: 2026` needs no quotes.
            Data::Scalar(scalar) if !self.node.is_null() => visitor.visit_str(&scalar.text),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if self.node.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.visit_mapping(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.visit_mapping(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_enum(self.choice(known)?)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f64 char bytes byte_buf unit unit_struct seq tuple
        tuple_struct identifier ignored_any
    }
}

struct Items<'a> {
    list: Reader<'a>,
    left: slice::Iter<'a, Node>,
    count: usize,
}

impl<'de> SeqAccess<'de> for &mut Items<'_> {
    type Error = Wrong;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Wrong> {
        let index = self.count - self.left.len();
        let Some(node) = self.left.next() else { return Ok(None) };
        let path = format!("{}[{index}]", self.list.path);
        Reader { node, path: &path, ..self.list }.seed(seed).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }
}

struct Entries<'a> {
    map: Reader<'a>,
    left: slice::Iter<'a, Entry>,
    value: Option<&'a Entry>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Wrong;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Wrong> {
        let Some(entry) = self.left.next() else { return Ok(None) };
        self.value = Some(entry);
        self.map.seed_name(seed, &entry.key, &entry.place).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Wrong> {
        let Some(entry) = self.value.take() else {
            return Err(Wrong::new("a value was asked for before its key"));
        };
        let path = below(self.map.path, &entry.key);
        Reader { node: &entry.value, path: &path, ..self.map }.seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }
}

/// One of several alternatives: a bare name, or a mapping of the name to its options.
struct Choice<'a> {
    parent: Reader<'a>,
    name: &'a str,
    place: &'a Place,
    content: Option<&'a Node>,
}

impl Choice<'_> {
    /// A bare name reads like one with an empty value behind it.
    fn read<T>(self, read: impl FnOnce(Reader<'_>) -> Result<T, Wrong>) -> Result<T, Wrong> {
        let nothing = Node::null(self.place.clone());
        let path = below(self.parent.path, self.name);
        let reader = Reader { node: self.content.unwrap_or(&nothing), path: &path, ..self.parent };
        read(reader).map_err(|wrong| wrong.at(reader.origin, &reader.node.place, reader.path))
    }
}

impl<'de> EnumAccess<'de> for Choice<'_> {
    type Error = Wrong;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Wrong> {
        let name = self.parent.seed_name(seed, self.name, self.place)?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'_> {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        self.read(|content| match &content.node.data {
            Data::Map(entries) if entries.is_empty() => Ok(()),
            _ if content.node.is_null() => Ok(()),
            _ => Err(Wrong::new("this choice takes no options")),
        })
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Wrong> {
        self.read(|content| content.seed(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Wrong> {
        self.read(|content| content.deserialize_any(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.read(|content| content.visit_mapping(visitor))
    }
}
