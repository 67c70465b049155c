package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/platform/vector"
)

// badAnswer is the error of an answer that is not what was asked for.
func badAnswer(format string, args ...any) error {
	return api.Errorf(api.KindUnavailable, "the answer is not one of the embeddings API: "+format, args...).
		WithHint("Check that the base URL is that of a server with OpenAI's embeddings API, and that the model is an embedding model.")
}

// readVectors reads the answer to a number of texts: one vector for each, all of one dimension.
func readVectors(body []byte, texts int) ([][]float32, error) {
	var answer struct {
		Data entries `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		var own *api.Error
		if errors.As(err, &own) {
			return nil, own
		}
		return nil, badAnswer("%v", err)
	}
	if len(answer.Data) != texts {
		return nil, badAnswer("it has %d vectors for %d texts", len(answer.Data), texts)
	}
	out := make([][]float32, texts)
	for i, x := range answer.Data {
		at := i // some servers do not number them
		if x.Index != nil {
			at = *x.Index
		}
		if at < 0 || at >= texts || out[at] != nil {
			return nil, badAnswer("a vector has the index %d, which is not one of %d texts or was there before", at, texts)
		}
		if err := vector.Check(x.Embedding); err != nil {
			return nil, badAnswer("%v", err)
		}
		if len(x.Embedding) != len(answer.Data[0].Embedding) {
			return nil, badAnswer("vectors of %d and of %d numbers", len(answer.Data[0].Embedding), len(x.Embedding))
		}
		out[at] = x.Embedding
	}
	return out, nil
}

type entry struct {
	Index     *int    `json:"index"`
	Embedding numbers `json:"embedding"`
}

// entries are read one by one, so that an answer with a million empty ones is not kept.
type entries []entry

// UnmarshalJSON implements [json.Unmarshaler].
func (e *entries) UnmarshalJSON(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return badAnswer("data is not an array")
	}
	for dec.More() {
		if len(*e) == model.MaxTexts {
			return badAnswer("it has more than %d vectors", model.MaxTexts)
		}
		var x entry
		if err := dec.Decode(&x); err != nil {
			return err
		}
		*e = append(*e, x)
	}
	return nil
}

type numbers []float32

// UnmarshalJSON implements [json.Unmarshaler].
func (n *numbers) UnmarshalJSON(b []byte) error {
	if most := bytes.Count(b, []byte{','}) + 1; most > vector.MaxDimension {
		return badAnswer("a vector of %d numbers: at most %d are allowed", most, vector.MaxDimension)
	}
	var all []number
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	*n = make(numbers, len(all))
	for i, x := range all {
		(*n)[i] = float32(x)
	}
	return nil
}

// number refuses null, which encoding/json takes for zero, and what is not finite in 32 bits.
type number float32

// UnmarshalJSON implements [json.Unmarshaler].
func (n *number) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 32)
	if err != nil {
		return badAnswer("%.40q is not a finite number", b)
	}
	*n = number(f)
	return nil
}
